"""The epilogue role: one warp that stores finished output tiles."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Box, Mods, Tiles
from attnspec.backends.cute.kernel.cut import FEW, rows_of
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, query_tile, visit
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
            _store(plan, tiles, pipes, work, at, lane, now)
            after(pipes, "store_o", lane, now)
        trips = visit(plan, at, keys(at)).trips
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile, stores=True)


@cute.jit
def _store(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, at: At, lane: cutlass.Constexpr, now: Now):
    """The rows that exist: in boxes of a few rows where a query tile has several heads."""
    pipe = find(pipes, "out", lane)
    first = (lane if pipe.copies else slot(pipe, now)) * (plan.o_stride // plan.box_bytes)
    if cutlass.const_expr(tiles.o_few is None):
        _store_boxes(plan, tiles.o, query_tile(plan, work, at, lane), (first, 1))
    else:
        if rows_of(plan, work.cut).count < plan.tile_q:
            boxes = plan.tile_q // FEW
            for number in cutlass.range(boxes, unroll=1):
                own = query_tile(plan, work, at, lane, number * FEW)
                _store_boxes(plan, tiles.o_few, own, (first * boxes + number, boxes))
        else:
            _store_boxes(plan, tiles.o, query_tile(plan, work, at, lane), (first, 1))
    cute.arch.cp_async_bulk_commit_group()
    cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def _store_boxes(plan: Plan, box: Box, own: At, room: tuple):
    """A box for each 64 columns, from a row of a query tile on; none, if that lies beyond the sequence, or has a part of
    the keys."""
    sequence, row = own.sequence, own.row + own.place
    if (row < own.end) & (own.parts == 1):
        first, stride = room
        for column in cutlass.range_constexpr(-(-plan.head_dim_v // plan.box_columns)):
            target = box.source[None, sequence.row_shift + row, column, own.h, sequence.row_axis]
            cute.copy(box.atom, box.boxes[None, first + column * stride], target)
