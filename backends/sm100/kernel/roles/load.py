"""The load role: one warp that keeps q, k and v coming."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, key_tile, visit
from attnspec.backends.sm100.kernel.blocks.fetch import LOAD_TENSOR, announce, copy_tile, load_rows, load_tensor
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def load(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: the empty sides of q, k, v and tensors' tiles. Signals: their full sides, through the bytes that TMA counts.

    Query tiles come once a work tile, in their place among the first step's operations; work tiles without steps load nothing.
    """
    keys = mods.keys
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        if trips > 0:
            _fetch(plan, tiles, pipes, mods, work, at, key_tile(run, Int32(0)), Now(steps, visited, full), True)
        for step in cutlass.range(1, trips, unroll=1):
            _fetch(plan, tiles, pipes, mods, work, at, key_tile(run, step), Now(steps + step, visited, full), False)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _fetch(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    mods: Mods,
    work: Work,
    at: At,
    key: Any,
    now: Now,
    is_first: bool,
) -> None:
    """One step of the program: `load_q` only in a work tile's first step, once for each query tile."""
    sequence = at.sequence
    keys = (sequence.key_shift + key * plan.tile_kv, at.hkv, sequence.key_axis)
    for step in plan.programs["load"]:
        if step.operation == "load_q":
            if is_first:
                first, full = announce(plan, pipes, step, now, plan.q_stride // plan.box_bytes)
                load_rows(plan, tiles, work, at, step.lane, first, full)
        elif step.operation == "load_k":
            copy_tile(plan, tiles.k, pipes, step, keys, now, plan.head_dim, plan.kv_stride // plan.key_box_bytes)
        elif step.operation.startswith(LOAD_TENSOR):
            load_tensor(plan, tiles, pipes, work, mods, at, step, at.kv_first + key * plan.tile_kv, now)
        else:
            copy_tile(plan, tiles.v, pipes, step, keys, now, plan.head_dim_v, plan.kv_stride // plan.key_box_bytes)
