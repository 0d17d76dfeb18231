"""One step of online softmax on a row of scores held in registers (Milakov and Gimelshein; FA4 for the lazy maximum)."""

import math
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, keys_below
from attnspec.backends.cute.kernel.blocks.exponential import Emulation, exponential, is_emulated
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods
from attnspec.backends.cute.kernel.work import At, again
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from attnspec.backends.sm100.kernel.blocks.staging import Staged
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Float32, Int32

CHUNK = WORD  # columns a tensor memory instruction moves
BATCH = 8  # scores finished between exponentials
# A list of values, not a tensor of registers: reading an element of that is four operations to trace for one that is meant.
Row = list[Float32]


@dataclass(frozen=True)
class Element:
    """Where a row of a tile is: its query, its first key, the place of its query tile, and what the row's elements share.

    staged: what reads the values of its keys and distances from shared memory, if there are any.
    """

    q: Any
    first_key: Any
    at: At
    row: Any
    staged: Staged | None = None

    def moved(self, keys: Any) -> "Element":
        """The same row, some keys on."""
        staged = None if self.staged is None else self.staged.moved(keys)
        return Element(self.q, self.first_key + keys, self.at, self.row, staged)

    def renewed(self) -> "Element":
        """The same values, known only from here on: or the compiler adds every key to them before the loop, and spills."""
        staged = None if self.staged is None else self.staged.renewed()
        return Element(again(self.q), self.first_key, self.at, tuple(again(value) for value in self.row), staged)


def load_scores(address: Any, count: int) -> Row:
    """`count` f32 values of a row of S, complete when this returns."""
    s = [value for first in range(0, count, CHUNK) for value in tensor_memory.load(address + first, min(count, CHUNK))]
    tensor_memory.wait_loads()
    return s


def finished_scores(plan: Plan, mods: Mods, address: Any, element: Element, is_partial: bool) -> Row:
    """A row of S, scaled, scored and masked; as it stands where `exponentials` does that, see `is_fused`.

    Where an element needs a load of its own, S is first rewritten in tensor memory a chunk at a time: with all of a row at
    hand the compiler starts all its loads at once, and spills.
    """
    element = element.renewed()
    reads = mods.score_reads or (is_partial and mods.mask_reads)
    if is_fused(plan, mods, is_partial):
        return load_scores(address, plan.tile_kv)
    if reads:
        is_by_words = mods.mask_reads or any(stage.axis != "element" or mods.mask for stage in mods.stages)  # of 32 keys
        _rewrite(plan, mods, address, element, is_partial, CHUNK if is_by_words else CHUNK // 2)
    s = load_scores(address, plan.tile_kv)
    if not reads:
        _finish(mods, s, element, is_partial)
    return s


@cute.jit
def _rewrite(plan: Plan, mods: Mods, address: Int32, element: Element, is_partial: cutlass.Constexpr, count: cutlass.Constexpr):
    for first in cutlass.range(0, plan.tile_kv, count, unroll=1):
        s = load_scores(address + first, count)
        _finish(mods, s, element.moved(first), is_partial)
        tensor_memory.store(address + first, f32.words(s))
    tensor_memory.wait_stores()


def _finish(mods: Mods, s: Row, element: Element, is_partial: bool) -> None:
    """Scale, score and mask, in place, what is not folded away."""
    if mods.scale is not None:
        for first in range(0, len(s), WORD):
            _score(mods, s, range(first, min(first + WORD, len(s))), element)
    if is_partial:
        for first in range(0, len(s), WORD):
            _mask(mods, s, first, element.moved(first))


def _score(mods: Mods, s: Row, places: range, element: Element) -> None:
    """Scale and score, in place, elements of some places of the row.

    Packed products hold a register more, which only a row without a maximum has to spare.
    """
    scale = mods.scale(element.at)  # pyright: ignore[reportOptionalCall] asked only where there is one
    if mods.midpoint is not None:
        for index in places[::2]:
            s[index], s[index + 1] = f32.apart(f32.multiply(f32.pair(s[index], s[index + 1]), f32.twice(scale)))
    part = element if mods.score is None else element.renewed()
    keys = [] if mods.score is None else f32.places(element.first_key, places.stop)
    for index in places:
        if mods.midpoint is None:
            s[index] = f32.times(s[index], Float32(scale))
        if mods.score is not None:
            near = () if part.staged is None else (part.staged.at(index),)
            s[index] = mods.score(s[index], part.q, keys[index], part.at, part.row, *near)


def is_fused(plan: Plan, mods: Mods, is_partial: bool) -> bool:
    """Whether scores are finished with their exponentials, a chunk after the other: without a maximum nothing waits for all of a
    row, and what a chunk's score asks of the special function unit hides behind the emulated exponentials of the last chunk.

    Not where the other query tile waits for the slot of a tensor's tile.
    """
    is_apart = mods.score_reads or (is_partial and mods.mask_reads) or any(not tile.stride for tile in plan.tensor_tiles)
    return mods.midpoint is not None and mods.score is not None and not is_apart


def reads_late(plan: Plan, mods: Mods) -> bool:
    """Whether a warp may read staged values after it has given its scores back: they are finished with their exponentials, and
    those lie apart."""
    is_apart = not plan.s_column <= plan.p_column < plan.s_column + plan.tile_kv
    return is_apart and is_fused(plan, mods, False)


def _mask(mods: Mods, s: Row, first: int, element: Element) -> None:
    """Put -inf where the key is hidden or beyond the sequence, for the 32 keys from `first`."""
    visible = keys_below(element.at.kv_end, element.first_key)
    if mods.mask is not None:
        near = () if element.staged is None else (element.staged,)
        visible = visible & mods.mask(element.q, element.first_key, element.at, element.row, *near)
    hidden = f32.constant(-math.inf)
    for bit in range(min(WORD, len(s) - first)):
        s[first + bit] = f32.where_bit(visible, bit, s[first + bit], hidden)


def new_maximum(plan: Plan, mods: Mods, s: Row, old: Float32) -> tuple[Float32, Float32]:
    """The row maximum to use from now on and the factor that brings earlier sums to it.

    The old one stays, and the factor is 1, while the new one exceeds it by no more than the threshold (log2 units). A NaN among
    the scores makes the maximum, and with it the row, NaN.
    """
    peak = greatest(plan, s, old)
    growth = (peak - old) * mods.to_log2
    stays = growth <= plan.rescale_threshold
    now = Float32(cutlass.select_(stays, old, peak))
    factor = cute.math.exp2(old * mods.to_log2 - shift(mods, now), fastmath=True)
    return now, Float32(cutlass.select_(stays, Float32(1.0), factor))


def greatest(plan: Plan, s: Row, old: Float32) -> Float32:
    """The greatest of a row and `old`."""
    peaks = [old, *s[:3]]
    for at, index in enumerate(range(3, plan.tile_kv - 1, 2)):
        peaks[at % 4] = f32.largest(peaks[at % 4], s[index], s[index + 1])
    peaks[0] = f32.larger(peaks[0], s[plan.tile_kv - 1])
    return f32.larger(f32.larger(peaks[0], peaks[1]), f32.larger(peaks[2], peaks[3]))


def kept(plan: Plan, mods: Mods, old: Float32, peak: Float32) -> Float32:
    """The maximum to use, as in `new_maximum`, of a row whose greatest score so far is `peak`."""
    return Float32(cutlass.select_((peak - old) * mods.to_log2 <= plan.rescale_threshold, old, peak))


def brought(mods: Mods, old: Float32, now: Float32) -> Float32:
    """The factor that brings sums from one maximum to another.

    Each maximum in log2 units is rounded as it was for the exponentials: factors along different ways have one product.
    """
    rounded = ptx("mul.rn.f32 {$w0}, {$r0}, {$r1};", old, Float32(mods.to_log2), returns=[Float32])
    factor = cute.math.exp2(rounded - shift(mods, now), fastmath=True)
    return Float32(cutlass.select_(old == now, Float32(1.0), factor))


def shift(mods: Mods, row_max: Float32) -> Float32:
    """What is subtracted in log2 units: the maximum, or 0 for a row that has seen nothing (-inf - -inf is no number)."""
    return Float32(cutlass.select_(row_max == -Float32.inf, Float32(0.0), row_max * mods.to_log2))


def exponentials(
    plan: Plan, mods: Mods, s: Row, element: Element, is_partial: bool, amount: Float32, address: Any, piece: str
) -> None:
    """P of one piece of the row, to tensor memory in the 16-bit type; s keeps the f32 values for the row sum."""
    first, last = (0, plan.probability_split) if piece == "exp_head" else (plan.probability_split, plan.tile_kv)
    factor, shift = f32.twice(mods.to_log2), f32.twice(-amount)
    # With a maximum, a NaN is in the shift, and so in every element.
    emulation = Emulation(plan.exponential_degree, keeps_nan=mods.midpoint is not None) if plan.emulated_share else exponential
    fused = is_fused(plan, mods, is_partial)
    if fused and first == 0:
        _finish_part(mods, s, range(CHUNK), element, is_partial)
    for at in range(first, last, CHUNK):
        for index in range(at, at + CHUNK, 2):
            ahead = index + CHUNK
            if fused and ahead % BATCH == 0 and ahead < plan.tile_kv:
                _finish_part(mods, s, range(ahead, ahead + BATCH), element, is_partial)
            x = f32.multiply_add(f32.pair(s[index], s[index + 1]), factor, shift)
            chosen = emulation if is_emulated(index // 2, plan.emulated_share) else exponential
            s[index], s[index + 1] = chosen(x)
        tensor_memory.store(address + at // 2, f32.narrow(s[at : at + CHUNK], plan.element))


def _finish_part(mods: Mods, s: Row, places: range, element: Element, is_partial: bool) -> None:
    """Scale, score and, once a word of keys is complete, mask some places of the row."""
    _score(mods, s, places, element)
    if is_partial and places.stop % WORD == 0:
        _mask(mods, s, places.stop - WORD, element.moved(places.stop - WORD))


def add_row(s: Row, total: Float32) -> Float32:
    """`total` plus the sum of the row."""
    first, *rest = (f32.pair(s[index], s[index + 1]) for index in range(0, len(s), 2))
    sums = [f32.add(first, f32.pair(total, Float32(0.0))), *rest[:3]]
    for index, values in enumerate(rest[3:]):
        sums[index % 4] = f32.add(sums[index % 4], values)
    left, right = f32.apart(f32.add(f32.add(sums[0], sums[1]), f32.add(sums[2], sums[3])))
    return left + right
