"""The load role: one warp that keeps q, k and v coming."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Box, Mods, Tiles
from attnspec.backends.cute.kernel.cut import FEW, rows_of
from attnspec.backends.cute.kernel.pipes import Now, Pipes, barrier, before, producing, slot
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, following, key_tile, locate, query_tile, visit
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def load(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: the empty sides of q, k and v. Signals: their full sides, through the bytes that TMA counts.

    Query tiles come once a work tile, in their place among the first step's operations; work tiles without steps load nothing.
    """
    keys, program = mods.keys, plan.programs["load"]
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        if trips > 0:
            _fetch(plan, tiles, pipes, program, work, at, key_tile(run, Int32(0)), Now(steps, visited, full), True)
        for step in cutlass.range(1, trips, unroll=1):
            _fetch(plan, tiles, pipes, program, work, at, key_tile(run, step), Now(steps + step, visited, full), False)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _fetch(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    program: tuple[Step, ...],
    work: Work,
    at: At,
    key: Any,
    now: Now,
    is_first: bool,
) -> None:
    """One step of the program: `load_q` only in a work tile's first step, once for each query tile."""
    sequence = at.sequence
    keys = (sequence.key_shift + key * plan.tile_kv, at.hkv, sequence.key_axis)
    for step in program:
        if step.operation == "load_q":
            if is_first:
                first, full = _announce(plan, pipes, step, now, plan.q_stride // plan.box_bytes)
                _load_rows(plan, tiles, work, at, step.lane, first, full)
        elif step.operation == "load_k":
            _copy(plan, tiles.k, pipes, step, keys, now, plan.head_dim, plan.kv_stride // plan.key_box_bytes)
        else:
            _copy(plan, tiles.v, pipes, step, keys, now, plan.head_dim_v, plan.kv_stride // plan.key_box_bytes)


def _announce(plan: Plan, pipes: Pipes, step: Step, now: Now, boxes: int) -> tuple[Any, Any]:
    """Wait for room, tell what will come; gives the first box of that room, and the barrier. boxes: of a copy."""
    pipe = producing(pipes, step.operation, step.lane)
    before(pipes, step.operation, step.lane, now, once=pipe.once)
    copy = step.lane if pipe.copies else slot(pipe, now)
    return copy * boxes, barrier(pipes, pipe, pipe.full, step.lane, now)


def _copy(plan: Plan, box: Box, pipes: Pipes, step: Step, place: tuple[Any, Any, Any], now: Now, width: int, boxes: int) -> None:
    """One tile of keys or values; place: coordinates of its first row (row, head, outermost)."""
    first, full = _announce(plan, pipes, step, now, boxes)
    _load_boxes(plan, box, place, width, (first, 1), full)


def _load_boxes(plan: Plan, box: Box, place: tuple[Any, Any, Any], width: int, room: tuple[Any, int], full: Any) -> None:
    """A box for each 64 columns. room: the first one's in shared memory, and how far the next ones are."""
    row, head, axis = place
    first, stride = room
    for column in range(-(-width // plan.box_columns)):
        target = box.boxes[None, first + column * stride]
        cute.copy(box.atom, box.source[None, row, column, head, axis], target, tma_bar_ptr=full)


@cute.jit
def _load_rows(plan: Plan, tiles: Tiles, work: Work, at: At, lane: cutlass.Constexpr, first: Int32, full: cute.Pointer):
    """A query tile: in one box a column block where its rows are of one head, else in boxes of a few rows."""
    if cutlass.const_expr(tiles.q_few is None):
        _load_boxes(plan, tiles.q, _place_of(plan, work, at, lane, 0), plan.head_dim, (first, 1), full)
    else:
        if rows_of(plan, work.cut).count < plan.tile_q:
            boxes = plan.tile_q // FEW
            for number in cutlass.range(boxes, unroll=1):
                place = _place_of(plan, work, at, lane, number * FEW)
                _load_boxes(plan, tiles.q_few, place, plan.head_dim, (first * boxes + number, boxes), full)
        else:
            _load_boxes(plan, tiles.q, _place_of(plan, work, at, lane, 0), plan.head_dim, (first, 1), full)


def _place_of(plan: Plan, work: Work, at: At, lane: int, thread: Any) -> tuple[Any, Any, Any]:
    """Coordinates of a query tile's row.

    Never wholly beyond the last row: for such a box an H200 looks at the start of the view, and packed ones start where there
    need be no memory.
    """
    own = query_tile(plan, work, at, lane, thread)
    row = cutlass.min(own.row + own.place, own.sequence.rows - 1)
    return own.sequence.row_shift + row, own.h, own.sequence.row_axis
