"""The pass after the backward: the sum of dQ, scaled and rounded to the 16-bit type. A CTA a query tile.

The sum lies as threads of the products have it, so a warp reads it as it was written, and turns it as dK and dV are.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_plan import PART
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.gradient_memory import QUAD, put_words, row_address
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.query_walk import find_row
from attnspec.backends.cute.kernel.work import Sequence, Sequences, Sizes
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks.gradient_output import LANES, dq_offset, turned
from attnspec.backends.sm90.kernel.blocks.held import WARP, WARP_ROWS
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT
from cutlass import Float32, Int32, Int64


@cute.jit
def convert(plan: BackwardPlan, sizes: Sizes, sequences: Sequences, scale: Float32, sum_dq, dq):
    """dQ = scale times the sum; rows beyond the sequence are not written."""
    tile, thread = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    sequence, h, first = find_row(plan, sizes, sequences, tile, Int32(0))
    source = Int64((sum_dq.iterator + Int64(tile) * (plan.parts * plan.sum_width * plan.tile_q)).toint())
    for turn in cutlass.range_constexpr(WARP // WARP_ROWS):  # a warp of the pass for each 32 rows
        row_warp = thread // WARP * (WARP // WARP_ROWS) + turn
        _rows(plan, sequence, h, first + row_warp * WARP_ROWS, scale, source + dq_offset(plan, 0, row_warp, thread % WARP), dq)


def _rows(plan: BackwardPlan, sequence: Sequence, h: Any, first: Any, scale: Float32, source: Any, dq: Any) -> None:
    """Sixteen rows, by a warp. source: this lane's own in the sum; four lanes have a row, and store 64 bytes of it."""
    lane = cute.arch.lane_idx()
    for column in range(0, plan.head_dim, LANES * EIGHT):
        octets = range(column // EIGHT, min(column + LANES * EIGHT, plan.head_dim) // EIGHT)
        values = [[value * scale for value in _load(plan, source, octet)] for octet in octets]
        own = column + lane % LANES * EIGHT
        for half in range(2):
            row = first + half * EIGHT + lane // LANES
            given = sequence.lse_row + cutlass.max(cutlass.min(row, sequence.rows - 1), 0)
            words = [f32.narrow(found[2 * half : 2 * half + 2], plan.element)[0] for found in values]
            four = turned([*words, *[Int32(0)] * (LANES - len(words))], lane % LANES)
            is_there = (row < sequence.rows) & (own < plan.head_dim)
            put_words(row_address(dq, sequence.lse_axis, given, h) + own * 2, four, is_there)


def _load(plan: BackwardPlan, source: Int64, octet: int) -> list[Float32]:
    """What a lane has of eight columns of the head dimension: of the part that they are in."""
    part = octet * EIGHT // PART if plan.parts > 1 else 0
    first = part * plan.sum_width * plan.tile_q * 4
    offset: Any = first + dq_offset(plan, octet - part * plan.part_step(plan.head_dim) // EIGHT, 0, 0)
    text = "ld.global.v4.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];"
    return ptx(text, source + offset, returns=[Float32] * QUAD)
