"""The role that adds to gradients of tensors read by distance: one warp, of sums that all others have staged."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.blocks import strips
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.query_walk import KeyAt, group, locate, next_tile, of_head, visit, visit_once
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from cutlass import Int32

OPERATION = "add_shares"


@cute.jit
def add(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: the strips of a step full. Signals: they are empty again.

    What distances of a step the next one has too is carried in registers from step to step of a head.
    """
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        seen = visit_once(plan, mods, at)
        done = Int32(0)
        for head in cutlass.range(group(at.sizes), unroll=1):
            own = of_head(at, at.h + head)
            run = visit(plan, mods, own) if cutlass.const_expr(seen is None) else seen
            carried, coming = strips.nothing_carried(plan, mods), Int32(0)
            for step in cutlass.range(run.trips, unroll=1):
                now, number = Now(steps + done + step, visited, full), key_tile(run, step)
                _flush(plan, tiles, mods, carried, own, coming, number)
                before(pipes, OPERATION, None, now)
                first = own.sequence.q_first + number * plan.tile_q
                strips.add_step(plan, tiles, mods, carried, strips.start(plan, tiles, pipes, now), own, first)
                after(pipes, OPERATION, None, now)
                coming = number + 1
            strips.end(plan, tiles, mods, carried, own, own.sequence.q_first + coming * plan.tile_q)
            done += run.trips
        steps += done
        visited += 1
        full += Int32(done > 0)
        tile = next_tile(plan, work, tile)


@cute.jit
def _flush(plan, tiles, mods, carried, own: KeyAt, coming: Int32, number: Int32):
    """What is carried goes to memory where other queries follow than would have."""
    if number != coming:
        strips.end(plan, tiles, mods, carried, own, own.sequence.q_first + coming * plan.tile_q)
