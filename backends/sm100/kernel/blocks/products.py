"""The matrix products of the forward, issued by one warp: scores of a tile of keys, and what a tile of values adds to O."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, copy, find
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.sm100.kernel.blocks import tensor_core, unseen
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Int32


def product(plan: Plan, tiles: Tiles, pipes: Pipes, step: Step, now: Now, tile: Any, accumulate: Any, clear: bool) -> None:
    """accumulate: whether O holds a product of this tile already."""
    if step.operation == "mma_qk":
        _query_key(plan, tiles, pipes, step, now)
        return
    if clear:
        _clear_again(plan, tiles, pipes, step.lane, now, tile)
    _probability_value(plan, tiles, pipes, step, now, accumulate)


@cute.jit
def product_if(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    step: cutlass.Constexpr,
    now: Now,
    tile: Int32,
    clear: cutlass.Constexpr,
    exists: Boolean,
):
    """A product with a key tile that is not the step's first, if there is one."""
    if exists:
        product(plan, tiles, pipes, step, now, tile, True, clear)


def clears(plan: Plan, mods: Mods, step: Step) -> bool:
    """Whether values are cleared before this product where a tile is done a second time; a pair's are as they come."""
    return mods.hides and plan.ctas == 1 and step == _first_product(plan, step.lane)


def _first_product(plan: Plan, lane: int | None) -> Step:
    """The first product of a step with a tile of V: lanes that are key tiles have one each."""
    program = plan.programs["mma"]
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
