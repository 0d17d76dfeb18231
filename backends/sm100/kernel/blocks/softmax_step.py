"""One step of online softmax on a row of scores held in registers (Milakov and Gimelshein; FA4 for the lazy maximum)."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from attnspec.backends.sm100.kernel.bundles import Mods
from attnspec.backends.sm100.kernel.plan import Plan
from attnspec.backends.sm100.kernel.work import At
from cutlass import Float32, Int32

CHUNK = 32  # columns a tensor memory instruction moves


def load_scores(plan: Plan, address: Any) -> cute.Tensor:
    """A row of S, `tile_kv` f32 values, complete when this returns."""
    s = cute.make_rmem_tensor(plan.tile_kv, Float32)
    for first in range(0, plan.tile_kv, CHUNK):
        for index, value in enumerate(tensor_memory.load(address + first, CHUNK)):
            s[first + index] = value
    tensor_memory.wait_loads()
    return s


def score(plan: Plan, mods: Mods, s: cute.Tensor, q: Any, first_key: Any, at: At, row: Any) -> None:
    """Apply the softmax scale and the variant's score function, in place, where they are not folded away."""
    if mods.scale is None:
        return
    scale = mods.scale(at)
    for index in range(plan.tile_kv):
        value = s[index] * scale
        s[index] = value if mods.score is None else mods.score(value, q, first_key + index, at, row)


def mask(plan: Plan, mods: Mods, s: cute.Tensor, q: Any, first_key: Any, at: At, row: Any) -> None:
    """Put -inf where the key is hidden or beyond the sequence, in place."""
    for index in range(plan.tile_kv):
        key = first_key + index
        visible = key < at.sizes.len_kv
        if mods.mask is not None:
            visible = visible & mods.mask(q, key, at, row)
        s[index] = Float32(cutlass.select_(visible, s[index], -Float32.inf))


def new_maximum(plan: Plan, mods: Mods, s: cute.Tensor, old: Float32) -> tuple[Float32, Float32]:
    """The row maximum to use from now on and the factor that brings earlier sums to it.

    The old one stays, and the factor is 1, while the new one exceeds it by no more than the threshold (log2 units).
    """
    peaks = [old, *(s[index] for index in range(3))]
    for index in range(3, plan.tile_kv):
        peaks[index % 4] = cute.arch.fmax(peaks[index % 4], s[index])
    peak = cute.arch.fmax(cute.arch.fmax(peaks[0], peaks[1]), cute.arch.fmax(peaks[2], peaks[3]))
    growth = (peak - old) * mods.to_log2
    stays = growth <= plan.rescale_threshold
    now = Float32(cutlass.select_(stays, old, peak))
    factor = cute.arch.exp2(old * mods.to_log2 - shift(mods, now))
    return now, Float32(cutlass.select_(stays, Float32(1.0), factor))


def shift(mods: Mods, row_max: Float32) -> Float32:
    """What is subtracted in log2 units: the maximum, or 0 for a row that has seen nothing (-inf - -inf is no number)."""
    return Float32(cutlass.select_(row_max == -Float32.inf, Float32(0.0), row_max * mods.to_log2))


def exponentials(plan: Plan, mods: Mods, s: cute.Tensor, amount: Float32, address: Any, piece: str) -> None:
    """P of one piece of the row, to tensor memory in the 16-bit type; s keeps the f32 values for the row sum."""
    first, last = (0, plan.probability_split) if piece == "exp_head" else (plan.probability_split, plan.tile_kv)
    factor = Float32(mods.to_log2)
    for at in range(first, last, CHUNK):
        for index in range(at, at + CHUNK, 2):
            low, high = cute.arch.fma_packed_f32x2((s[index], s[index + 1]), (factor, factor), (-amount, -amount))
            s[index], s[index + 1] = cute.arch.exp2(low), cute.arch.exp2(high)
        chunk = cute.make_tensor(s.iterator + at, cute.make_layout(CHUNK))
        packed = cute.make_rmem_tensor(CHUNK // 2, Int32)
        narrow = cute.make_tensor(cute.recast_ptr(packed.iterator, dtype=plan.element), cute.make_layout(CHUNK))
        narrow.store(chunk.load().to(plan.element))
        tensor_memory.store(address + at // 2, [packed[index] for index in range(CHUNK // 2)])


def add_row(s: cute.Tensor, total: Float32) -> Float32:
    """`total` plus the sum of the row."""
    count = cute.size(s)
    sums = [(total, s[0]), (s[1], s[2]), (s[3], s[4]), (s[5], s[6])]
    for index in range(7, count - 1, 2):
        at = index // 2 % 4
        sums[at] = cute.arch.add_packed_f32x2(sums[at], (s[index], s[index + 1]))
    left, right = cute.arch.add_packed_f32x2(
        cute.arch.add_packed_f32x2(sums[0], sums[1]), cute.arch.add_packed_f32x2(sums[2], sums[3])
    )
    return left + right + s[count - 1]
