"""The end of a work tile: O normalised, put in shared memory as TMA wants it, and the log-sum-exps of its rows."""

from collections.abc import Sequence
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.row_end import normalise
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.work import At
from attnspec.backends.sm90.kernel.blocks import scalar, softmax_step
from attnspec.backends.sm90.kernel.plan import Plan
from cutlass import Float32, Int32

MATRIX_ROWS = 8  # of a tile that stmatrix stores
WORDS = 4  # of an stmatrix of four: 16 rows, 16 columns
PIECE_BYTES = 16


def finished_rows(mods: Mods, at: At, sums: Sequence[Float32], maxima: Sequence[Float32]) -> tuple[list[Float32], list[Float32]]:
    """For each of a thread's rows the factor of its output, and its log-sum-exp. sums: the thread's shares."""
    sink = None if mods.sink is None else mods.sink(at)
    pairs = []
    for share, row_max in zip(sums, maxima, strict=True):
        total = softmax_step.across_quad(share, scalar.plus)
        pairs.append(normalise(mods.to_log2, sink, total, row_max))
    return [scale for scale, _ in pairs], [lse for _, lse in pairs]


def write_shared(plan: Plan, tiles: Tiles, o: Sequence[Float32], first_row: Any, lane: Any) -> None:
    """This thread's part of O in the output type. first_row: of its warp in the tile; lane: in the warp."""
    words = f32.narrow(o, plan.element)
    place = lane % MATRIX_ROWS
    row = first_row + place + (lane // MATRIX_ROWS) % 2 * MATRIX_ROWS
    half = lane // (2 * MATRIX_ROWS)  # the left or the right eight columns
    start = Int32(tiles.shared + plan.o_offset + row * plan.row_bytes)
    pieces = plan.row_bytes // PIECE_BYTES
    for at in range(0, len(words), WORDS):
        box, piece = divmod(at // 2, pieces)
        address = start + ((half + piece) ^ place) * PIECE_BYTES  # the 128-byte swizzle exchanges pieces (PTX ISA)
        text = (
            f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [{{$r0}}+{box * plan.box_bytes}], {{{{$r1}}, {{$r2}}, {{$r3}}, {{$r4}}}};"
        )
        ptx(text, address, *words[at : at + WORDS])


@cute.jit
def write_lse(tiles: Tiles, at: At, rows: tuple, lses: tuple, lane: Int32):
    """The log-sum-exps of a thread's rows that exist; the first of the four threads of a row writes it."""
    sequence = at.sequence
    if lane % 4 == 0:
        for index in cutlass.range_constexpr(2):
            row = at.row + rows[index]
            if row < sequence.rows:
                tiles.lse[sequence.lse_axis, at.h, sequence.lse_row + row] = lses[index]
