"""The load role: one warp that keeps q, k and v coming."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Box, Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, barrier, before, producing, slot
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, key_tile
from attnspec.backends.sm90.kernel.plan import Plan
from attnspec.backends.sm90.kernel.walk import visit_and_post
from cutlass import Int32


@cute.jit
def load(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: the empty sides of q, k and v. Signals: their full sides, through the bytes that TMA counts.

    The query tile comes once a work tile, in its place among the first step's operations; work tiles without steps load nothing.
    """
    program = plan.programs["load"]
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit_and_post(plan, tiles, mods, at, visited)
        trips = run.trips
        if trips > 0:
            _fetch(plan, tiles, pipes, program, at, key_tile(run, Int32(0)), Now(steps, visited, full), True)
        for step in cutlass.range(1, trips, unroll=1):
            _fetch(plan, tiles, pipes, program, at, key_tile(run, step), Now(steps + step, visited, full), False)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _fetch(plan: Plan, tiles: Tiles, pipes: Pipes, program: tuple[Step, ...], at: At, key: Any, now: Now, is_first: bool) -> None:
    """One step of the program: `load_q` only in a work tile's first step."""
    sequence = at.sequence
    keys = (sequence.key_shift + key * plan.tile_kv, at.hkv, sequence.key_axis)
    for step in program:
        if step.operation == "load_q":
            if is_first:
                # Never wholly beyond the last row: for such a box an H200 looks at the start of the view, and packed ones
                # start where there need be no memory.
                row = cutlass.min(at.row, sequence.rows - 1)
                first = (sequence.row_shift + row, at.h, sequence.row_axis)
                _copy(plan, tiles.q, pipes, step, first, now, plan.head_dim, plan.q_stride // plan.box_bytes)
        elif step.operation == "load_k":
            _copy(plan, tiles.k, pipes, step, keys, now, plan.head_dim, plan.keys.stride // plan.key_box_bytes)
        else:
            _copy(plan, tiles.v, pipes, step, keys, now, plan.head_dim_v, plan.values.stride // plan.key_box_bytes)


def _copy(plan: Plan, box: Box, pipes: Pipes, step: Step, place: tuple[Any, Any, Any], now: Now, width: int, boxes: int) -> None:
    """One tile, a box for each 64 columns; place: coordinates of its first row (row, head, outermost); boxes: of a copy."""
    pipe = producing(pipes, step.operation, step.lane)
    before(pipes, step.operation, step.lane, now, once=pipe.once)
    full = barrier(pipes, pipe, pipe.full, step.lane, now)
    first = slot(pipe, now) * boxes
    row, head, axis = place
    for column in range(-(-width // plan.box_columns)):
        cute.copy(box.atom, box.source[None, row, column, head, axis], box.boxes[None, first + column], tma_bar_ptr=full)
