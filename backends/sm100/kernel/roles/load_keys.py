"""The load role of one query tile: one warp that keeps q and the key tiles of a step coming, values a step later."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Box, Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, pass_on
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, At, Steps, Work, key_tile, visit
from attnspec.backends.sm100.kernel.blocks.fetch import announce, copy_tile, load_rows
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Int32


@cute.jit
def load_keys(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: the empty sides of q, k and v. Signals: their full sides, through the bytes that TMA counts.

    The program is software-pipelined as that of `mma`. A step without a key tile for its last lane loads none there.
    """
    keys, program = mods.keys, plan.programs["load"]
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        if trips > 0:
            now = Now(steps, visited, full)
            _trip(plan, tiles, pipes, work, program, (0,), at, run, now, Int32(0), True)
            for trip in cutlass.range(1, trips, unroll=1):
                now = Now(steps + trip, visited, full)
                _trip(plan, tiles, pipes, work, program, (0, 1), at, run, now, trip, False)
            now = Now(steps + trips, visited, full)
            _trip(plan, tiles, pipes, work, program, (1,), at, run, now, trips, False)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _trip(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    work: Work,
    program: tuple[Step, ...],
    stages: tuple[int, ...],
    at: At,
    run: Steps,
    now: Now,
    trip: Any,
    is_first: bool,
) -> None:
    """One trip through the program: `load_q` only in a work tile's first."""
    for step in program:
        if step.operation == "load_q":
            if is_first:
                first, full = announce(plan, pipes, step, now, plan.q_stride // plan.box_bytes)
                load_rows(plan, tiles, work, at, 0, first, full)
        elif step.stage in stages:
            own, index = Now(now.steps - step.stage, now.tiles, now.full_tiles), (trip - step.stage) * plan.key_tiles + step.lane
            place = _place_of(plan, at, key_tile(run, index))
            box, width = (tiles.k, plan.head_dim) if step.operation == "load_k" else (tiles.v, plan.head_dim_v)
            stride = plan.kv_stride if step.operation == "load_k" else plan.value_ring.stride
            boxes = stride // plan.key_box_bytes
            if step.lane == 0:
                copy_tile(plan, box, pipes, step, place, own, width, boxes)
            else:
                _copy_if(plan, box, pipes, step, place, own, width, boxes, index < run.key_tiles)


def _place_of(plan: Plan, at: At, key: Any) -> tuple[Any, Any, Any]:
    """Coordinates of a key tile's first row."""
    sequence = at.sequence
    return sequence.key_shift + key * plan.tile_kv, at.hkv, sequence.key_axis


@cute.jit
def _copy_if(
    plan: Plan,
    box: Box,
    pipes: Pipes,
    step: cutlass.Constexpr,
    place: tuple,
    now: Now,
    width: cutlass.Constexpr,
    boxes: cutlass.Constexpr,
    exists: Boolean,
):
    """A tile of keys or values, if there is one."""
    if exists:
        copy_tile(plan, box, pipes, step, place, now, width, boxes)
    else:
        pass_on(pipes, step.operation, step.lane, now)
