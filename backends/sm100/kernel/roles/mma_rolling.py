"""The tensor core role where it rolls: the last products of a work tile are issued among the first scores of the next."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.shares import following, locate, upcoming
from attnspec.backends.cute.kernel.work import NUMBER, Work, visit
from attnspec.backends.sm100.kernel.blocks import products
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Int32


@cute.jit
def mma_rolling(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: q, k, v full; P written; O rescaled, or read. Signals, by commit: S and O complete; q, k, v read.

    As in `mma`, operations of stage 1 belong to the step before. In a tile's first trip that is the last step of the tile before
    it that had steps; where no tile follows, they come after the last trip. due: steps of the tile whose last products are still
    to come, 0 where there is none.
    """
    keys = mods.keys
    tile, steps, visited, full, due = work.first, Int32(0), Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        trips = visit(plan, at, keys(at)).trips
        if trips > 0:
            _first_trip(plan, tiles, pipes, mods, tile, Now(steps, visited, full), trips, due)
            for trip in cutlass.range(1, trips, unroll=1):
                _trip(plan, tiles, pipes, mods, tile, Now(steps + trip, visited, full), trip, trips)
            due = trips
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        if (upcoming(plan, work, tile) & NUMBER) >= work.count:
            for step in _lagging(plan):
                _finish(plan, tiles, pipes, mods, tile, step, Now(steps, visited, full), due)
            due = Int32(0)
        tile = following(plan, tiles, mods, work, tile)


def _lagging(plan: Plan) -> list[Step]:
    return [step for step in plan.programs["mma"] if step.stage]


def _first_trip(plan: Plan, tiles: Tiles, pipes: Pipes, mods: Mods, tile: Any, now: Now, trips: Any, due: Any) -> None:
    """A tile's first trip, with the last products of the tile before it."""
    for step in plan.programs["mma"]:
        if step.stage:
            _finish(plan, tiles, pipes, mods, tile, step, now, due)
        else:
            _operation(plan, tiles, pipes, mods, tile, step, now, True, trips == 1)


@cute.jit
def _finish(plan: Plan, tiles: Tiles, pipes: Pipes, mods: Mods, tile: Int32, step: cutlass.Constexpr, now: Now, due: Int32):
    """One of the last products of the tile before, if they are still to come. now: after all steps of that tile.

    tile: the one at hand, of which only the sign counts: all are finished before the first is done again.
    """
    if due > 0:
        own = Now(now.steps - step.stage, now.tiles, now.full_tiles - 1)
        _operation(plan, tiles, pipes, mods, tile, step, own, due == 1, True)


def _trip(plan: Plan, tiles: Tiles, pipes: Pipes, mods: Mods, tile: Any, now: Now, trip: Any, trips: Any) -> None:
    """A trip that is not a tile's first: all of it is of one tile."""
    for step in plan.programs["mma"]:
        own = Now(now.steps - step.stage, now.tiles, now.full_tiles)
        if step.stage:
            _operation(plan, tiles, pipes, mods, tile, step, own, trip == step.stage, False)
        else:
            _operation(plan, tiles, pipes, mods, tile, step, own, False, trip + 1 == trips)


def _operation(
    plan: Plan, tiles: Tiles, pipes: Pipes, mods: Mods, tile: Any, step: Step, own: Now, is_first: Any, is_last: Any
) -> None:
    """An operation of one step with all that it waits for and signals, in a tile's first step and its last what they alone do."""
    for opened in _opened_by(plan, step):
        _once(pipes, opened, own, before, is_first)
    before(pipes, step.operation, step.lane, own)
    accumulate = step.stage > 0 and is_first == Boolean(False)
    products.product(plan, tiles, pipes, step, own, tile, accumulate, products.clears(plan, mods, step))
    after(pipes, step.operation, step.lane, own)
    _once(pipes, step, own, after, is_last)


def _opened_by(plan: Plan, step: Step) -> list[Step]:
    """The operations of a step that write one place, if this is the first of them: it waits for what they all need of it."""
    own = [other for other in plan.programs["mma"] if (other.lane, other.stage) == (step.lane, step.stage)]
    return own if own[0] == step else []


def _once(pipes: Pipes, step: Step, now: Now, side: Any, holds: Any) -> None:
    """Hand-overs of once a work tile, if this is the step that has them."""
    if holds is True:
        side(pipes, step.operation, step.lane, now, once=True)
    elif holds is not False:
        _once_if(pipes, step, now, side, holds)


@cute.jit
def _once_if(pipes: Pipes, step: cutlass.Constexpr, now: Now, side: cutlass.Constexpr, holds: Boolean):
    if holds:
        side(pipes, step.operation, step.lane, now, once=True)
