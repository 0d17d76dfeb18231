"""The epilogue role: one warp that stores finished output tiles."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, following, locate, tile_row, visit
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def epilogue(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: an output slot full. Signals: it is empty again, once TMA has read it. Rows beyond the sequence are not written."""
    keys = mods.keys
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        now = Now(steps, visited, full)
        for lane in cutlass.range_constexpr(plan.query_tiles):
            before(pipes, "store_o", lane, now)
            _store(plan, tiles, pipes, at, tile_row(plan, work, lane), lane, now)
            after(pipes, "store_o", lane, now)
        trips = visit(plan, at, keys(at)).trips
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile, stores=True)


@cute.jit
def _store(plan: Plan, tiles: Tiles, pipes: Pipes, at: At, first: Int32, lane: cutlass.Constexpr, now: Now):
    """The rows that exist; none, if the tile lies wholly beyond the sequence. first: the tile's first row, of the work tile's."""
    if at.row + first < at.sequence.rows:
        _store_boxes(plan, tiles, pipes, at, first, lane, now)


def _store_boxes(plan: Plan, tiles: Tiles, pipes: Pipes, at: At, first_row: Any, lane: int, now: Now) -> None:
    pipe = find(pipes, "out", lane)
    copy = lane if pipe.copies else slot(pipe, now)
    first = copy * (plan.o_stride // plan.box_bytes)
    sequence = at.sequence
    row = sequence.row_shift + at.row + first_row
    for column in range(-(-plan.head_dim_v // plan.box_columns)):
        cute.copy(tiles.o.atom, tiles.o.boxes[None, first + column], tiles.o.source[None, row, column, at.h, sequence.row_axis])
    cute.arch.cp_async_bulk_commit_group()
    cute.arch.cp_async_bulk_wait_group(0, read=True)
