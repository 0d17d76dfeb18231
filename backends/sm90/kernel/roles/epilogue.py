"""The epilogue role: one warp that stores finished output tiles."""

import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, At, Work
from attnspec.backends.sm90.kernel.plan import Plan
from attnspec.backends.sm90.kernel.walk import visit
from cutlass import Int32


@cute.jit
def epilogue(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: an output slot full. Signals: it is empty again, once TMA has read it. Rows beyond the sequence are not written.

    Where outputs are staged over queries: signals, at the beginning of a work tile that has steps, that its queries may come.
    """
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        now = Now(steps, visited, full)
        trips = visit(plan, mods, at).trips
        if trips > 0:
            after(pipes, "free_q", None, now, once=True)
        before(pipes, "store_o", None, now)
        _store(plan, tiles, pipes, at, now)
        after(pipes, "store_o", None, now)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile, stores=True)


@cute.jit
def _store(plan: Plan, tiles: Tiles, pipes: Pipes, at: At, now: Now):
    """The rows that exist; none, if the tile lies wholly beyond the sequence."""
    if at.row < at.sequence.rows:
        _store_boxes(plan, tiles, pipes, at, now)


def _store_boxes(plan: Plan, tiles: Tiles, pipes: Pipes, at: At, now: Now) -> None:
    first = slot(find(pipes, "out"), now) * (plan.o_stride // plan.box_bytes)
    sequence = at.sequence
    row = sequence.row_shift + at.row
    for column in range(-(-plan.head_dim_v // plan.box_columns)):
        cute.copy(tiles.o.atom, tiles.o.boxes[None, first + column], tiles.o.source[None, row, column, at.h, sequence.row_axis])
    cute.arch.cp_async_bulk_commit_group()
    cute.arch.cp_async_bulk_wait_group(0, read=True)
