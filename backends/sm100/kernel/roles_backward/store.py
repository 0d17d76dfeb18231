"""The store role of the backward: one warp that adds dQ of each step to the sum of its query tile."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.query_walk import group, locate, of_head, row_tile, visit
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import gradient_output
from cutlass import Int32


@cute.jit
def store(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: a staging slot full. Signals: it is empty again, once the bulk reduction has read it."""
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        done = Int32(0)
        for head in cutlass.range(group(at.sizes), unroll=1):
            own = of_head(at, at.h + head)
            run = visit(plan, mods, own)
            for step in cutlass.range(run.trips, unroll=1):
                now = Now(steps + done + step, visited, full)
                target = row_tile(work, own, key_tile(run, step))
                for chunk in cutlass.range_constexpr(plan.width_qk // plan.chunk):
                    before(pipes, f"reduce_dq_{chunk}", None, now)
                    gradient_output.add(plan, tiles, pipes, now, chunk, target)
                    after(pipes, f"reduce_dq_{chunk}", None, now)
            done += run.trips
        steps += done
        visited += 1
        full += Int32(done > 0)
        tile += work.stride
    cute.arch.cp_async_bulk_wait_group(0)
