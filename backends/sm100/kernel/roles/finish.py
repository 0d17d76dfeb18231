"""The correction role of a variant whose scores are bounded: nothing to rescale, only rows to finish."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, Work, query_tile, visit
from attnspec.backends.sm100.kernel.blocks import output
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def finish(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: the row's sum; O complete; the output slot empty. Signals: output full; O read, so that the next tile may begin."""
    keys = mods.keys
    thread = cute.arch.thread_idx()[0] % plan.tile_q
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        trips = visit(plan, at, keys(at)).trips
        steps += trips
        end = Now(steps, visited, full)
        for lane in cutlass.range_constexpr(plan.query_tiles):
            own = query_tile(plan, work, at, lane, thread)
            output.finish(plan, tiles, pipes, mods, lane, end, tile, at, own, trips > 0)
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)
