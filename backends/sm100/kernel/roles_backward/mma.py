"""The tensor core role of the backward: one warp that issues five products a step, in the order that the schedule holds."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import PART
from attnspec.backends.cute.kernel.pipes import Edge, Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.query_walk import locate, next_tile, steps_of
from attnspec.backends.cute.kernel.work import Work, again
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import tensor_core
from cutlass import Boolean, Int32


@cute.jit
def mma(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: k, v, q, dO full; P, dS written; dQ drained where dP takes its place. Signals, by commit: products complete, and
    operands read.

    An operation of stage 1 belongs to the step before: the first trip runs stage 0 alone, the last stage 1 alone.
    """
    program = plan.programs["mma"]
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        trips = steps_of(plan, mods, at)
        if trips > 0:
            start = Now(steps, visited, full)
            _once(pipes, program, 0, start, before)
            _trip(plan, tiles, pipes, program, (0,), at.part, start, Boolean(False), "first")
            _once(pipes, program, 1, start, before)
            for trip in cutlass.range(1, trips, unroll=1):
                _trip(plan, tiles, pipes, program, (0, 1), at.part, Now(steps + trip, visited, full), trip > 1)
            _once(pipes, program, 0, start, after)
            _trip(plan, tiles, pipes, program, (1,), at.part, Now(steps + trips, visited, full), trips > 1, "last")
            _once(pipes, program, 1, start, after)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = next_tile(plan, work, tile)


def _once(pipes: Pipes, program: tuple[Step, ...], stage: int, now: Now, side: Any) -> None:
    """Hand-overs that happen once a work tile, for the operations of one stage."""
    for step in program:
        if step.stage == stage:
            side(pipes, step.operation, None, now, once=True)


def _trip(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    pipes: Pipes,
    program: tuple[Step, ...],
    stages: tuple[int, ...],
    part: Any,
    now: Now,
    has_lagged: Any,
    edge: Edge = "",
) -> None:
    """One trip through the program. part: of the head dimensions (`BackwardPlan`).

    has_lagged: whether an operation of stage 1 has run before in this work tile. edge: whether it is the tile's first or last.
    """
    for step in program:
        if step.stage not in stages:
            continue
        own = Now(now.steps - step.stage, now.tiles, now.full_tiles)
        before(pipes, step.operation, None, own, edge=edge)
        accumulate = has_lagged if step.stage else Boolean(1 in stages)
        PRODUCTS[step.operation](plan, tiles, pipes, own, part, accumulate)
        after(pipes, step.operation, None, own)


def _at(shared: Any, offset: int) -> Any:
    return shared + (offset >> 4)


def _slot(pipes: Pipes, name: str, shared: Any, offset: int, stride: int, now: Now) -> Any:
    return shared + slot(find(pipes, name), now) * (stride >> 4) + (offset >> 4)


def _part(plan: BackwardPlan, start: Any, rows: int, part: Any, parts: int) -> Any:
    """Start of a part's columns of a tile; the last part that there is, where the other head dimension has more."""
    if parts == 1:
        return start
    return start + part * (plan.part_bytes(rows) >> 4)


def _scores(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, part: Any, accumulate: Any) -> None:
    """S^T = K Q^T."""
    tensor, shared = tensor_core.starts(tiles.starts)
    q = _slot(pipes, "q", shared, plan.q_offset, plan.q_stride, now)
    code = tensor_core.instruction(plan.is_bf16, plan.work_keys, plan.tile_q, False)
    rows = (plan.tile_kv, plan.q_rows)
    tensor_core.query_key(tensor + plan.s_column, _at(shared, plan.k_offset), q, plan.width_qk, rows, code, plan.ctas)


def _probability_gradient(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, part: Any, accumulate: Any) -> None:
    """dP^T = V dO^T."""
    tensor, shared = tensor_core.starts(tiles.starts)
    do = _slot(pipes, "do", shared, plan.do_offset, plan.do_stride, now)
    code = tensor_core.instruction(plan.is_bf16, plan.work_keys, plan.tile_q, False)
    rows = (plan.tile_kv, plan.q_rows)
    tensor_core.query_key(tensor + plan.dp_column, _at(shared, plan.v_offset), do, plan.width_v, rows, code, plan.ctas)


def _value_gradient(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, part: Any, accumulate: Any) -> None:
    """dV += P^T dO."""
    tensor, shared = tensor_core.starts(tiles.starts)
    name, offset, stride = plan.tile_of_columns("do")
    do = _part(plan, _slot(pipes, name, shared, offset, stride, now), plan.tile_q, part, plan.parts_v)
    code = tensor_core.instruction(plan.is_bf16, plan.work_keys, plan.dv_width, True)
    d, p, columns = tensor + plan.dv_column, tensor + plan.p_column, plan.operand_columns
    tensor_core.scattered_product(d, p, do, columns, code, accumulate, plan.ctas)


def _key_gradient(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, part: Any, accumulate: Any) -> None:
    """dK += dS^T Q."""
    tensor, shared = tensor_core.starts(tiles.starts)
    name, offset, stride = plan.tile_of_columns("q")
    q = _part(plan, _slot(pipes, name, shared, offset, stride, now), plan.tile_q, part, plan.parts_qk)
    code = tensor_core.instruction(plan.is_bf16, plan.work_keys, plan.dk_width, True)
    d, ds, columns = tensor + plan.dk_column, tensor + plan.ds_column, plan.operand_columns
    tensor_core.scattered_product(d, ds, q, columns, code, accumulate, plan.ctas)


def _query_gradient(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, part: Any, accumulate: Any) -> None:
    """dQ = dS K, dS read from shared memory, transposed; where there are parts, dQ^T = K^T dS of 128 columns of K."""
    tensor, shared = tensor_core.starts(tiles.starts)
    ds, k = _at(shared, plan.ds_offset), _at(shared, plan.dq_keys_offset)
    if plan.parts == 1:
        code = tensor_core.instruction(plan.is_bf16, plan.tile_q, plan.dk_width, True, True)
        tensor_core.transposed_product(tensor + plan.dq_column, ds, k, plan.work_keys, code, plan.ctas)
    else:
        k = _part(plan, k, plan.tile_kv, part, plan.parts_qk)
        code = tensor_core.instruction(plan.is_bf16, PART, plan.tile_q, True, True)
        tensor_core.transposed_product(tensor + plan.dq_column, k, ds, plan.tile_kv, code)


PRODUCTS = {
    "mma_s": _scores,
    "mma_dp": _probability_gradient,
    "mma_dv": _value_gradient,
    "mma_dk": _key_gradient,
    "mma_dq": _query_gradient,
}
