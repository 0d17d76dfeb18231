"""The role that does it all but for moving memory: two warpgroups that make dK and dV of 64 keys each, and dQ together."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.query_walk import (
    group,
    is_masked,
    keys_of,
    locate,
    next_tile,
    of_head,
    row_tile,
    steps_of,
    survey,
    survey_once,
)
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks import gradient_output, learned_gradient, scalar
from attnspec.backends.sm90.kernel.blocks.backward_trip import Trips, hold, once, run_trip
from attnspec.backends.sm90.kernel.blocks.gradient_step import Element
from attnspec.backends.sm90.kernel.blocks.held import find_place
from attnspec.backends.sm90.kernel.blocks.registers import fill, values
from cutlass import Float32, Int32


@cute.jit
def attend(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: k, v once a tile; q, dO, their rows' numbers; the staging slot of dQ empty. Signals: all of them read; dQ staged.

    dK and dV stay in registers over the steps of a key tile, of all heads of the group.
    """
    place, held, sums = find_place(plan), hold(plan), learned_gradient.running_sums(mods)
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        first = at.sequence.kv_first + at.key
        keys = (first + place.rows[0], first + place.rows[1])
        fill(held.dk, 0.0)
        fill(held.dv, 0.0)
        kv = tuple(cutlass.min(one, at.kv_last) for one in keys)
        seen = survey_once(plan, mods, at, kv)
        done, start = Int32(0), Now(steps, visited, full)
        if steps_of(plan, mods, at, seen) > 0:
            once(plan, pipes, start, before)
        for head in cutlass.range(group(at.sizes), unroll=1):
            own = of_head(at, at.h + head)
            found = survey(plan, mods, own, kv) if cutlass.const_expr(seen is None) else seen
            run = found.run
            key = keys_of(mods, own, kv, found)
            for step in cutlass.range(run.trips, unroll=1):
                now = Now(steps + done + step, visited, full)
                number = key_tile(run, step)
                query = own.sequence.q_first + number * plan.tile_q
                element = Element(keys, query + place.lane % 4 * 2, own, key)
                is_last = own.kv_first + plan.tile_kv > own.kv_end
                trip = Trips(plan, tiles, pipes, mods, place, held, sums, row_tile(work, own, number))
                # Two whole trips: where paths meet inside one, every value that differs wants a second register.
                if is_masked(plan, mods, own, found.clear, query) | is_last:
                    run_trip(trip, now, element, True)
                else:
                    run_trip(trip, now, element, False)
            learned_gradient.flush(tiles, mods, sums, Element(keys, Int32(0), own, key))
            done += run.trips
        if done > 0:
            once(plan, pipes, start, after)
        scale = Float32(mods.scale(at))
        gradient_output.write_gradient(plan, tiles.dv, place, at, values(held.dv), plan.head_dim_v)
        dk = [scalar.fused(value, scale, Float32(0.0)) for value in values(held.dk)]
        gradient_output.write_gradient(plan, tiles.dk, place, at, dk, plan.head_dim)
        steps += done
        visited += 1
        full += Int32(done > 0)
        tile = next_tile(plan, work, tile)
