"""The role that does it all but for moving memory: warpgroups that multiply, exponentiate and finish 64 rows each."""

from dataclasses import replace
from functools import partial
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, are_full, before, known, worked_out
from attnspec.backends.cute.kernel.shares import Spot, at_spot, following, spot_of, upcoming
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, again, key_tile, meets
from attnspec.backends.sm90.kernel.blocks import output, softmax_step, unseen
from attnspec.backends.sm90.kernel.blocks.held import Held, clear, find_place, hold, own_rows, rows_of
from attnspec.backends.sm90.kernel.blocks.registers import values
from attnspec.backends.sm90.kernel.blocks.trip import Trips, give_turn, once, operands_of, run_trip, three_unmasked
from attnspec.backends.sm90.kernel.plan import Plan
from attnspec.backends.sm90.kernel.walk import survey
from cutlass import Float32, Int32


@cute.jit
def attend(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: q, k, v full; the output slot empty. Signals: q, k, v read; output full.

    The program is software-pipelined: an operation of stage 1 belongs to the step before. Its first trip runs stage 0 alone,
    its last trip stage 1 alone. O, P, and a row's maximum and sum stay in registers from trip to trip.
    """
    place = find_place(plan)
    held = hold(plan)
    give_turn(plan, place, True)
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    lane, block, h = numbers_of(plan, work, tile)
    while (tile & NUMBER) < work.count:
        at = at_spot(plan, work, Spot(lane, block, h, Int32(0)))
        q = own_rows(place, at)
        run, masked, rows = survey(plan, tiles, mods, at, q, visited)
        trips = run.trips
        clear(held, mods)
        coming = upcoming(plan, work, tile)
        scale0, scale1, lse0, lse1 = Float32(0.0), Float32(0.0), Float32(0.0), Float32(0.0)
        trips_of = Trips(plan, tiles, pipes, mods, place, held, at, q, rows, tile)
        if trips > 0:
            start = Now(steps, visited, full)
            once(plan, pipes, 0, start, before)
            # Beside each trip's products: what the next trip is, which its products would otherwise wait for.
            following_trip = partial(next_trip, trips_of, run, masked, start)
            coming_trip = run_trip(trips_of, (0,), start, key_tile(run, Int32(0)), True, partial(following_trip, Int32(1)))
            # Two whole trips, not one with a mask inside a branch: where paths meet, every score wants a second register.
            for step in cutlass.range(1, trips, unroll=1):
                now, is_partial, there = trip_of(trips_of, coming_trip, start, step)
                key = key_tile(run, step)
                then = partial(following_trip, step + 1)
                if is_partial:
                    coming_trip = run_trip(trips_of, (0, 1), now, key, True, then, there)
                else:
                    coming_trip = run_trip(trips_of, (0, 1), now, key, False, then, there)
            once(plan, pipes, 0, start, after)
            # Beside the last product: where the next tile is, and what the rows' sums give.
            ahead = partial(look_ahead, plan, work, mods, at, held, coming)
            now, _, _ = trip_of(trips_of, coming_trip, start, trips)
            found = run_trip(trips_of, (1,), now, Int32(0), False, ahead)
            lane, block, h, scale0, scale1, lse0, lse1 = found
            once(plan, pipes, 1, start, after)
            if cutlass.const_expr(mods.hides):  # noqa: SIM102 decided while tracing
                if tile < 0:
                    unseen.show(plan, tiles, mods, at, place, q, rows, held)
        else:
            lane, block, h, scale0, scale1, lse0, lse1 = look_ahead(plan, work, mods, at, held, coming, Int32(0))
        steps += trips
        end = Now(steps, visited, full)
        before(pipes, "finish", None, end)
        o = softmax_step.scaled_rows(values(held.o), (scale0, scale1))
        output.write_shared(plan, tiles, o, place.first_row, place.lane)
        if cutlass.const_expr(mods.hides):  # noqa: SIM102
            if tile >= 0:
                unseen.note(tiles, tile, o, (lse0, lse1))
        after(pipes, "finish", None, end)
        output.write_lse(tiles, at, place.rows, (lse0, lse1), place.lane)
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)
        if tile != coming:
            lane, block, h = numbers_of(plan, work, tile)
    give_turn(plan, place, False)


def next_trip(of: Trips, run: Any, masked: Any, start: Now, step: Int32, zero: Int32) -> tuple[Any, ...]:
    """Of a step to come: whether some of it may be hidden, where its operations are in their rings, and, if `three_unmasked`,
    whether what its products read is there already: the answer takes as long as a wait.

    A tile that is done a second time is masked in whole, so that the trips without a mask need not ask. zero: see `run_trip`.
    """
    step += zero
    is_partial = meets(of.plan, of.at, masked, of.at.kv_first + key_tile(run, step) * of.plan.tile_kv)
    if of.mods.hides:
        is_partial = is_partial | (of.tile < 0)
    now = Now(start.steps + step, start.tiles, start.full_tiles)
    places = worked_out(of.pipes, of.plan.programs["attend"], now)
    found = (Int32(is_partial), *places)
    if three_unmasked(of.plan, of.mods):
        ahead = replace(now, known=known(of.pipes, of.plan.programs["attend"], places))
        found = (*found, are_full(of.pipes, operands_of(of.plan, ahead)))
    return tuple(map(again, found))  # or both branches' would be worked out where they meet, at the end of the trip


def trip_of(of: Trips, found: tuple[Any, ...], start: Now, step: Int32) -> tuple[Now, Any, Any]:
    """The same as it is wanted: where the CTA is, whether the key tile may hide some, and whether operands are there, or None."""
    is_partial, *places = found
    there = places.pop() if three_unmasked(of.plan, of.mods) else None
    rings = known(of.pipes, of.plan.programs["attend"], places)
    return Now(start.steps + step, start.tiles, start.full_tiles, rings), is_partial != 0, there


def numbers_of(plan: Plan, work: Work, tile: Int32) -> tuple[Int32, Int32, Int32]:
    """Where a work tile is, as numbers that a loop can carry; of a number beyond the last, where the last is."""
    spot = spot_of(plan, work, cutlass.min(tile & NUMBER, work.count - 1))
    return Int32(spot.lane), Int32(spot.block), Int32(spot.unit)


def look_ahead(plan: Plan, work: Work, mods: Mods, at: At, held: Held, tile: Int32, zero: Int32) -> tuple[Any, ...]:
    """Where a work tile is, and of the rows at hand the factors of their outputs and their log-sum-exps. zero: see `run_trip`."""
    scales, lses = output.finished_rows(mods, at, *rows_of(held))
    return (*numbers_of(plan, work, tile + zero), *scales, *lses)
