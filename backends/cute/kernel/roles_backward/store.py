"""The store role of the backward: one warp that adds dQ of each step to the sum of its query tile."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import BackwardWidths
from attnspec.backends.cute.kernel.blocks import gradient_memory
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.query_walk import group, locate, next_tile, of_head, row_tile, visit, visit_once
from attnspec.backends.cute.kernel.turns import await_turn, end_turn, near, number_of, predecessor
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from cutlass import Int32, Int64


@cute.jit
def store(plan: BackwardWidths, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: a staging slot full; where adding has an order, the turn of the key tile (see `turns`). Signals: the slot is empty
    again, once the bulk reduction has read it; the turn of the next, once all of a query tile is written.
    """
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        seen = visit_once(plan, mods, at)
        done = Int32(0)
        for head in cutlass.range(group(at.sizes), unroll=1):
            own = of_head(at, at.h + head)
            run = visit(plan, mods, own) if cutlass.const_expr(seen is None) else seen
            nearest = near(plan, mods, own, Int32(0)) if cutlass.const_expr(plan.deterministic) else None
            for step in cutlass.range(run.trips, unroll=1):
                now = Now(steps + done + step, visited, full)
                query = key_tile(run, step)
                target = row_tile(work, own, query) * plan.shares + own.part + work.rank
                word = Int64((tiles.turns.iterator + Int64(target)).toint()) if cutlass.const_expr(plan.deterministic) else None
                if cutlass.const_expr(plan.deterministic):
                    await_turn(word, predecessor(plan, mods, own, nearest, query))
                for chunk in cutlass.range_constexpr(plan.dq_columns // plan.chunk):
                    before(pipes, f"reduce_dq_{chunk}", None, now)
                    gradient_memory.add(plan, tiles, pipes, now, chunk, target)
                    after(pipes, f"reduce_dq_{chunk}", None, now)
                if cutlass.const_expr(plan.deterministic):
                    end_turn(word, number_of(plan, own) + 1)
            done += run.trips
        steps += done
        visited += 1
        full += Int32(done > 0)
        tile = next_tile(plan, work, tile)
    cute.arch.cp_async_bulk_wait_group(0)
