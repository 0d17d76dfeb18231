"""The tensor core role where it drains: one warp that issues every matrix product of a work tile before those of the next."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, Steps, Work, visit
from attnspec.backends.sm100.kernel.blocks import products
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def mma(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: q, k, v full; P written; O rescaled. Signals, by commit: S and O complete; q, k, v read.

    The program is software-pipelined: an operation of stage 1 belongs to the step before. Its first trip runs stage 0 alone,
    its last trip stage 1 alone.
    """
    keys, program = mods.keys, plan.programs["mma"]
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        if trips > 0:
            _once(pipes, program, 0, Now(steps, visited, full), before)
            _trip(plan, tiles, pipes, mods, tile, program, (0,), run, Now(steps, visited, full), Int32(0))
            _once(pipes, program, 1, Now(steps, visited, full), before)
            for trip in cutlass.range(1, trips, unroll=1):
                _trip(plan, tiles, pipes, mods, tile, program, (0, 1), run, Now(steps + trip, visited, full), trip)
            _once(pipes, program, 0, Now(steps, visited, full), after)
            _trip(plan, tiles, pipes, mods, tile, program, (1,), run, Now(steps + trips, visited, full), trips)
            _once(pipes, program, 1, Now(steps, visited, full), after)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _once(pipes: Pipes, program: tuple[Step, ...], stage: int, now: Now, side: Any) -> None:
    """Hand-overs that happen once a work tile, for the operations of one stage."""
    for step in program:
        if step.stage == stage:
            side(pipes, step.operation, step.lane, now, once=True)


def _trip(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    mods: Mods,
    tile: Any,
    program: tuple[Step, ...],
    stages: tuple[int, ...],
    run: Steps,
    now: Now,
    trip: Int32,
) -> None:
    """One trip through the program. Of lanes that are key tiles, the last may have none in a tile's last step."""
    for step in program:
        if step.stage not in stages:
            continue
        own = Now(now.steps - step.stage, now.tiles, now.full_tiles)
        clear = products.clears(plan, mods, step)
        before(pipes, step.operation, step.lane, own)
        if plan.key_tiles == 1 or step.lane == 0:
            products.product(plan, tiles, pipes, step, own, tile, trip > step.stage, clear)
        else:
            exists = (trip - step.stage) * plan.key_tiles + step.lane < run.key_tiles
            products.product_if(plan, tiles, pipes, step, own, tile, clear, exists)
        after(pipes, step.operation, step.lane, own)
