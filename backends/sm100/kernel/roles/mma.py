"""The tensor core role: one warp that issues every matrix product, in the order that the schedule holds."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, copy, find
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.work import NUMBER, Steps, Work, following, locate, visit
from attnspec.backends.sm100.kernel.blocks import tensor_core, unseen
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Int32


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


def _first_product(plan: Plan, program: tuple[Step, ...], lane: int | None) -> Step:
    """The first product of a step with a tile of V: lanes that are key tiles have one each."""
    own = (step for step in program if step.operation != "mma_qk" and (plan.key_tiles == 1 or step.lane == lane))
    return min(own, key=lambda step: step.stage)


@cute.jit
def _clear_again(plan: Plan, tiles: Tiles, pipes: Pipes, lane: cutlass.Constexpr, now: Now, tile: Int32):
    """Where a tile is done a second time: values without what is not finite, from the first use on."""
    if tile < 0:
        _, shared = tensor_core.starts(tiles.starts)
        ring = plan.value_ring
        v = (shared << 4) + ring.offset + copy(find(pipes, "v"), lane, now) * ring.stride
        unseen.clear(plan, v)


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
        # A pair's values are cleared as they come.
        clears = mods.hides and plan.ctas == 1 and step == _first_product(plan, program, step.lane)
        before(pipes, step.operation, step.lane, own)
        if plan.key_tiles == 1 or step.lane == 0:
            _product(plan, tiles, pipes, step, own, tile, trip > step.stage, clears)
        else:
            exists = (trip - step.stage) * plan.key_tiles + step.lane < run.key_tiles
            _product_if(plan, tiles, pipes, step, own, tile, clears, exists)
        after(pipes, step.operation, step.lane, own)


@cute.jit
def _product_if(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    step: cutlass.Constexpr,
    now: Now,
    tile: Int32,
    clears: cutlass.Constexpr,
    exists: Boolean,
):
    """A product with a key tile that is not the step's first, if there is one."""
    if exists:
        _product(plan, tiles, pipes, step, now, tile, True, clears)


def _product(plan: Plan, tiles: Tiles, pipes: Pipes, step: Step, now: Now, tile: Any, accumulate: Any, clears: bool) -> None:
    """accumulate: whether O holds a product of this tile already."""
    if step.operation == "mma_qk":
        _query_key(plan, tiles, pipes, step, now)
        return
    if clears:
        _clear_again(plan, tiles, pipes, step.lane, now, tile)
    _probability_value(plan, tiles, pipes, step, now, accumulate)


def _query_key(plan: Plan, tiles: Tiles, pipes: Pipes, step: Step, now: Now) -> None:
    code = tensor_core.instruction(plan.is_bf16, plan.tile_q * plan.ctas, plan.tile_kv, False)
    tensor, shared = tensor_core.starts(tiles.starts)
    q = shared + (plan.q_offset + (step.lane if plan.key_tiles == 1 else 0) * plan.q_stride >> 4)
    k = shared + copy(find(pipes, "k"), step.lane, now) * (plan.kv_stride >> 4) + (plan.kv_offset >> 4)
    s = tensor + (plan.s_column + step.lane * plan.s_stride)
    tensor_core.query_key(s, q, k, plan.width_qk, (plan.tile_q, plan.key_rows), code, plan.ctas)


def _probability_value(plan: Plan, tiles: Tiles, pipes: Pipes, step: Step, now: Now, accumulate: Any) -> None:
    code = tensor_core.instruction(plan.is_bf16, plan.tile_q * plan.ctas, plan.width_v, True)
    split = plan.probability_split // tensor_core.K_STEP
    is_head = step.operation == "mma_pv_head"
    steps = (0, split) if is_head else (split, plan.tile_kv // tensor_core.K_STEP)
    tensor, shared = tensor_core.starts(tiles.starts)
    p = tensor + (plan.p_column + step.lane * plan.p_stride)
    ring = plan.value_ring
    v = shared + copy(find(pipes, "v"), step.lane, now) * (ring.stride >> 4) + (ring.offset >> 4)
    o = tensor + (plan.o_column + step.lane * plan.o_column_stride)
    tensor_core.probability_value(o, p, v, steps, plan.tile_kv, code, accumulate if is_head else True, plan.ctas)
