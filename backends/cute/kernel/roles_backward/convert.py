"""The pass after the backward: the sum of dQ, scaled and rounded to the 16-bit type. A CTA a query tile, a thread a row."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_plan import LANES, PART, BackwardWidths
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.gradient_memory import QUAD, put_words, row_address
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.query_walk import find_row
from attnspec.backends.cute.kernel.work import Sequences, Sizes
from cutlass import Float32, Int64

PIECE = 8  # elements of 16 bytes


@cute.jit
def convert(plan: BackwardWidths, sizes: Sizes, sequences: Sequences, scale: Float32, sum_dq, dq):
    """dQ = scale times the sum; rows beyond the sequence are not written."""
    tile = cute.arch.block_idx()[0]
    thread = cute.arch.thread_idx()[0]
    sequence, h, q = find_row(plan, sizes, sequences, tile, thread)
    source = Int64((sum_dq.iterator + Int64(tile) * (plan.parts * plan.sum_width * plan.tile_q)).toint())
    row = sequence.lse_row + cutlass.max(cutlass.min(q, sequence.rows - 1), 0)
    target = row_address(dq, sequence.lse_axis, row, h)
    for first in cutlass.range_constexpr(0, plan.head_dim, PIECE):
        values = []
        for quad in cutlass.range_constexpr(first, first + PIECE, QUAD):
            text = "ld.global.v4.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];"
            values += ptx(text, source + _offset(plan, quad, thread), returns=[Float32] * QUAD)
        words = f32.narrow([value * scale for value in values], plan.element)
        put_words(target + first * 2, words, q < sequence.rows)


def _offset(plan: BackwardWidths, column: int, row: Any) -> Any:
    """Where four columns of a row are in the sum."""
    if plan.ctas > 1:  # of each CTA half of the rows; a lane has half of a row's columns
        rows, columns = plan.tile_q // plan.ctas, plan.dq_columns
        share, lane = row // rows, row % rows + column // columns * rows
        return share * (plan.sum_width * rows * 4) + column % columns * (LANES * 4) + lane * (QUAD * 4)
    part = column // PART
    first, own = part * plan.sum_width * plan.tile_q, column - part * plan.part_step(plan.head_dim)
    if plan.is_turned:
        return (first + row * PART + own) * 4
    return (first + own * plan.tile_q + row * QUAD) * 4
