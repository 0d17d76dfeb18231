"""The correction role: a warpgroup that rescales O while the tile runs and finishes it at the end."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, await_seldom, before
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, Work, query_tile, visit
from attnspec.backends.sm100.kernel.blocks import output, tensor_memory
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Float32, Int32


@cute.jit
def correction(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: a step's rescale factor, later the row's sum; O complete; the output slot empty. Signals: O rescaled; output full.

    The factor of a step is known only once S of that step is complete, and the tensor core runs in order, so the products that
    O holds by then are complete too. A work tile without steps has O = 0.
    """
    keys = mods.keys
    thread = cute.arch.thread_idx()[0] % plan.tile_q
    tensor = tiles.starts.load()
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        trips = visit(plan, at, keys(at)).trips
        for step in cutlass.range(trips, unroll=1):
            now = Now(steps + step, visited, full)
            for lane in cutlass.range_constexpr(plan.lanes):
                before(pipes, "rescale", lane, now)
                factor = (tiles.stats + (lane * 2 * plan.tile_q + thread)).load()
                address = tensor_memory.warp_address(tensor, plan.o_column + lane * plan.o_column_stride, thread // 32)
                _rescale(plan, pipes, lane, now, address, factor, _has_product(plan, lane, step))
                after(pipes, "rescale", lane, now)
        steps += trips
        end = Now(steps, visited, full)
        for lane in cutlass.range_constexpr(plan.query_tiles):
            own = query_tile(plan, work, at, lane, thread)
            output.finish(plan, tiles, pipes, mods, lane, end, tile, at, own, trips > 0)
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _has_product(plan: Plan, lane: int, step: Any) -> Any:
    """Whether O holds a product by then; where lanes share it, the second finds that of the first."""
    return step > 0 if plan.key_tiles == 1 or lane == 0 else Boolean(True)


@cute.jit
def _rescale(plan: Plan, pipes: Pipes, lane: cutlass.Constexpr, now: Now, address: Int32, factor: Float32, has_product: Boolean):
    """O of this warp's rows times each row's factor, unless no row of the warp needs it."""
    if has_product:  # noqa: SIM102 the vote needs all lanes, and must not be taken where there is nothing to rescale
        if cute.arch.vote_any_sync(factor < Float32(1.0)):
            await_seldom(pipes, "rescale", lane, now)
            output.scale_in_place(plan, address, factor)
