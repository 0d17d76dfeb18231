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
from attnspec.backends.sm90.kernel.blocks.gradient_output import BLOCK_COLUMNS, LANES, dq_offset, turned
from attnspec.backends.sm90.kernel.blocks.held import WARP
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT
from cutlass import Float32, Int32, Int64


@cute.jit
def convert(plan: BackwardPlan, sizes: Sizes, sequences: Sequences, scale: Float32, sum_dq, dq):
    """dQ = scale times the sum; rows beyond the sequence are not written."""
    tile, thread = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    sequence, h, first = find_row(plan, sizes, sequences, tile, Int32(0))
    source = Int64((sum_dq.iterator + Int64(tile) * (plan.parts * plan.sum_width * plan.tile_q)).toint())
    octet = thread // WARP
    while octet < plan.tile_q // EIGHT:
        _rows(plan, sequence, h, first + octet * EIGHT, scale, source + dq_offset(plan, 0, octet, thread % WARP), dq)
        octet += plan.convert_threads // WARP


def _rows(plan: BackwardPlan, sequence: Sequence, h: Any, first: Any, scale: Float32, source: Any, dq: Any) -> None:
    """Eight rows, by a warp. source: this lane's own in the sum; four lanes have a row, and store 64 bytes of it."""
    lane = cute.arch.lane_idx()
    row = first + lane // LANES
    given = sequence.lse_row + cutlass.max(cutlass.min(row, sequence.rows - 1), 0)
    for column in range(0, plan.head_dim, LANES * EIGHT):
        words = []
        for block in range(column, min(column + LANES * EIGHT, plan.head_dim), BLOCK_COLUMNS):
            words += _across(f32.narrow([value * scale for value in _load(plan, source, block)], plan.element))
        own = column + lane % LANES * EIGHT
        four = turned([*words, *[Int32(0)] * (LANES - len(words))], lane % LANES)
        is_there = (row < sequence.rows) & (own < plan.head_dim)
        put_words(row_address(dq, sequence.lse_axis, given, h) + own * 2, four, is_there)


def _load(plan: BackwardPlan, source: Int64, column: int) -> list[Float32]:
    """What a lane has of 16 columns of the head dimension: of the part that they are in."""
    part = column // PART if plan.parts > 1 else 0
    first = part * plan.sum_width * plan.tile_q * 4
    offset: Any = first + dq_offset(plan, (column - part * plan.part_step(plan.head_dim)) // BLOCK_COLUMNS, 0, 0)
    text = "ld.global.v4.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];"
    return ptx(text, source + offset, returns=[Float32] * QUAD)


def _across(words: list[Int32]) -> list[Int32]:
    """Two queries of a column each, of two times eight columns: two columns of a query, for each eight (PTX ISA, movmatrix)."""
    return [ptx("movmatrix.sync.aligned.m8n8.trans.b16 {$w0}, {$r0};", word, returns=[Int32]) for word in words]
