"""Tiles from global to shared memory, a TMA box after the other, told to a pipe that counts their bytes."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Box, Mods, Tiles
from attnspec.backends.cute.kernel.cut import FEW, rows_of
from attnspec.backends.cute.kernel.pipes import Now, Pipes, barrier, before, copy, producing
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.work import At, Work, query_tile
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32

LOAD_TENSOR = "load_tile"  # and a number: the operation that brings a tensor's tile


def announce(plan: Plan, pipes: Pipes, step: Step, now: Now, boxes: int) -> tuple[Any, Any]:
    """Wait for room, tell what will come; gives the first box of that room, and the barrier. boxes: from a copy to the next."""
    pipe = producing(pipes, step.operation, step.lane)
    before(pipes, step.operation, step.lane, now, once=pipe.once)
    return copy(pipe, step.lane, now) * boxes, barrier(pipes, pipe, pipe.full, step.lane, now)


def copy_tile(
    plan: Plan, box: Box, pipes: Pipes, step: Step, place: tuple[Any, Any, Any], now: Now, width: int, boxes: int
) -> None:
    """One tile of keys or values; place: coordinates of its first row (row, head, outermost)."""
    first, full = announce(plan, pipes, step, now, boxes)
    _load_boxes(plan, box, place, width, (first, 1), full)


def _load_boxes(plan: Plan, box: Box, place: tuple[Any, Any, Any], width: int, room: tuple[Any, int], full: Any) -> None:
    """A box for each 64 columns. room: the first one's in shared memory, and how far the next ones are."""
    row, head, axis = place
    first, stride = room
    for column in range(-(-width // plan.box_columns)):
        target = box.boxes[None, first + column * stride]
        cute.copy(box.atom, box.source[None, row, column, head, axis], target, tma_bar_ptr=full)


def load_tensor(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods, at: At, step: Step, keys: Any, now: Now) -> None:
    """A query tile's part of a tensor, for the keys from `keys` on."""
    number = int(step.operation.removeprefix(LOAD_TENSOR))
    own, box, slot = query_tile(plan, work, at, step.lane, 0), tiles.tensors[number], plan.tensor_tiles[number]
    stage = [one for one in mods.stages if one.axis == "element"][number]
    columns = 8 * plan.row_bytes // slot.element.width
    first, full = announce(plan, pipes, step, now, slot.stride // plan.box_bytes)
    for index in range(slot.size // plan.box_bytes):
        place = (own.q_first + own.place, keys + index * columns, *reversed(stage.where(own)))
        cute.copy(box.atom, box.source[None, *place], box.boxes[None, first + index], tma_bar_ptr=full)


@cute.jit
def load_rows(plan: Plan, tiles: Tiles, work: Work, at: At, lane: cutlass.Constexpr, first: Int32, full: cute.Pointer):
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
