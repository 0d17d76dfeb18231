"""The pass before the backward: what each query row brings, and the sum of dQ set to zero. A CTA a query tile, a thread a row."""

import math
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, RowAt
from attnspec.backends.cute.kernel.backward_plan import BackwardWidths
from attnspec.backends.cute.kernel.blocks.gradient_memory import QUAD, row_address
from attnspec.backends.cute.kernel.blocks.gradient_sums import with_warp
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.query_walk import find_row
from attnspec.backends.cute.kernel.work import Sequence, Sequences, Sizes
from cutlass import Float32, Int32, Int64

LOG2_E = math.log2(math.e)
PIECE = 8  # elements of 16 bytes


@cute.jit
def prepare(
    plan: BackwardWidths,
    mods: BackwardMods,
    sizes: Sizes,
    sequences: Sequences,
    out,
    dout,
    lse,
    dlse,
    rows,
    sum_dq,
    turns,
    tensors,
    sums,
):
    """Of each row, negated: its log-sum-exp in log2 units, and delta = sum(out * dout) - dlse.

    A row that sees nothing, or lies beyond the sequence, brings -inf and 0: all its probabilities are then 0. A learned sink gets
    its gradient here: it has a probability in each row as a key has, and delta is all that its derivative needs.
    """
    thread = cute.arch.thread_idx()[0]
    sequence, h, q = find_row(plan, sizes, sequences, cute.arch.block_idx()[0], thread)
    axis, row = sequence.lse_axis, _given_row(sequence, q, lse)
    product = _dot(plan, row_address(out, axis, row, h), row_address(dout, axis, row, h))
    write_row(plan, mods, sizes, (sequence, h, q), product, lse, dlse, rows, sum_dq, turns, tensors, sums)


def _given_row(sequence: Sequence, q: Any, lse: cute.Tensor) -> Any:
    """Where a row is in the call's own tensors; some row for one that is not there.

    A packed sequence without rows that comes last begins where the tensors end.
    """
    row = sequence.lse_row + cutlass.max(cutlass.min(q, sequence.rows - 1), 0)
    return cutlass.min(row, Int32(lse.shape[2]) - 1)


@cute.jit
def write_row(plan, mods, sizes: Sizes, place: tuple, product: Float32, lse, dlse, rows, sum_dq, turns, tensors, sums):
    """What a thread does for its row. place: its sequence, its head, and the row. product: sum(out * dout)."""
    sequence, h, q = place
    tile, thread = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    axis, row = sequence.lse_axis, _given_row(sequence, q, lse)
    natural = lse[axis, h, row]
    is_empty = (natural == -Float32.inf) | (q >= sequence.rows)
    delta = product - dlse[axis, h, row]
    target = rows.iterator + (Int64(tile) * (plan.planes * plan.tile_q) + thread)
    minus_delta = Float32(cutlass.select_(is_empty, Float32(0.0), -delta))
    target.store(Float32(cutlass.select_(is_empty, -Float32.inf, -natural * LOG2_E)))
    (target + plan.tile_q).store(minus_delta)
    if cutlass.const_expr(mods.sink is not None):
        at = RowAt(sequence.sizes, tensors, sequence.b, h, h // (sizes.heads // sizes.kv_heads))
        weight = cute.math.exp2((mods.sink(at) - natural) * LOG2_E, fastmath=True)
        _add_sink(mods, sums, at, Float32(cutlass.select_(is_empty, Float32(0.0), minus_delta * weight)))
    if cutlass.const_expr(plan.deterministic):  # noqa: SIM102 decided while tracing
        if thread < plan.shares:
            (turns.iterator + Int64(tile) * plan.shares + thread).store(Int32(0))
    width = plan.parts * plan.sum_width
    start = Int64((sum_dq.iterator + Int64(tile) * (width * plan.tile_q)).toint()) + thread * 16
    for first in cutlass.range(0, width, QUAD, unroll=4):
        ptx("st.global.v4.b32 [{$r0}], {{$r1}, {$r1}, {$r1}, {$r1}};", start + first * (plan.tile_q * 4), Int32(0))


def _add_sink(mods: BackwardMods, sums: Any, at: RowAt, share: Float32) -> None:
    for read in mods.sinks:
        with_warp(getattr(sums, read.name), read.indices(at), share * read.partial(at))


def _dot(plan: BackwardWidths, left: Int64, right: Int64) -> Float32:
    """Sum of products of two rows of 16-bit values, the row's length of `head_dim_v`."""
    total = Float32(0.0)
    for first in range(0, plan.head_dim_v, PIECE):
        for one, other in zip(_wide(plan, left + first * 2), _wide(plan, right + first * 2), strict=True):
            total = total + one * other
    return total


def _wide(plan: BackwardWidths, address: Int64) -> list[Float32]:
    """8 values of 16 bits as f32."""
    words = ptx("ld.global.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];", address, returns=[Int32] * 4)
    packed = cute.make_rmem_tensor(4, Int32)
    for index, word in enumerate(words):
        packed[index] = word
    narrow = cute.make_tensor(cute.recast_ptr(packed.iterator, dtype=plan.element), cute.make_layout(PIECE))
    return [Float32(narrow[index]) for index in range(PIECE)]
