"""The load role of a CTA that shares keys and values with another: one warp that keeps q, and its half of k and v, coming."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import pair
from attnspec.backends.cute.kernel.bundles import Box, Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, acquire, barrier, before, producing, slot
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, At, Work, key_tile, query_tile, visit
from attnspec.backends.sm100.kernel.blocks import unseen
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def load_pair(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: the empty sides of q, k and v, in this CTA. Signals: their full sides in the leader, through the bytes of both.

    Of a tile of keys this CTA takes its half of the rows, of a tile of values its half of the columns.
    """
    keys, program = mods.keys, plan.programs["load"]
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        if trips > 0:
            now = Now(steps, visited, full)
            for step in program:
                _fetch(plan, tiles, pipes, mods, work, step, at, tile, key_tile(run, Int32(0)), now)
        for trip in cutlass.range(1, trips, unroll=1):
            now = Now(steps + trip, visited, full)
            for step in program:
                if cutlass.const_expr(step.operation != "load_q"):
                    _fetch(plan, tiles, pipes, mods, work, step, at, tile, key_tile(run, trip), now)
        steps += trips
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _fetch(
    plan: Plan, tiles: Tiles, pipes: Pipes, mods: Mods, work: Work, step: Step, at: At, tile: Any, key: Any, now: Now
) -> None:
    """One operation of the program."""
    sequence, first = at.sequence, key * plan.tile_kv
    if step.operation == "load_q":
        row = cutlass.min(query_tile(plan, work, at, step.lane).row, sequence.rows - 1)  # as in `load`
        place = (sequence.row_shift + row, 0, at.h, sequence.row_axis)
        _copy(plan, tiles.q, pipes, step, place, now, (plan.head_dim, 1), plan.q_stride // plan.box_bytes)
    elif step.operation == "load_k":
        row = cutlass.min(first + work.rank * plan.key_rows, sequence.keys - 1)  # what stands for keys beyond the last is hidden
        place = (sequence.key_shift + row, 0, at.hkv, sequence.key_axis)
        _copy(plan, tiles.k, pipes, step, place, now, (plan.head_dim, 1), plan.kv_stride // plan.key_box_bytes)
    else:
        place = (sequence.key_shift + first, value_column(plan, work), at.hkv, sequence.key_axis)
        _values(plan, tiles, pipes, mods, step, at, tile, first, place, now)


def value_column(plan: Plan, work: Work) -> Any:
    """First column of this CTA's half of a value; none begins beyond the last one, where a box would have nothing to read."""
    return Int32(0) if plan.value_columns >= plan.head_dim_v else work.rank * plan.value_columns


@cute.jit
def _values(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    mods: Mods,
    step: cutlass.Constexpr,
    at: At,
    tile: Int32,
    first: Int32,
    place: tuple,
    now: Now,
):
    """Values; where a tile is done a second time, without what is not finite (see `unseen`)."""
    columns = (plan.value_columns, plan.box_columns)
    if cutlass.const_expr(mods.hides):
        if tile < 0:
            pipe = producing(pipes, step.operation, step.lane)
            acquire(pipes, pipe, step.lane, now)
            address = tiles.shared + plan.kv_offset + slot(pipe, now) * plan.kv_stride
            unseen.bring(plan, tiles, at, first, place[1], address)
            with cute.arch.elect_one():
                pair.arrive(barrier(pipes, pipe, pipe.full, step.lane, now))
        else:
            _copy(plan, tiles.v, pipes, step, place, now, columns, 1)
    else:
        _copy(plan, tiles.v, pipes, step, place, now, columns, 1)


def _copy(
    plan: Plan, box: Box, pipes: Pipes, step: Step, place: tuple[Any, ...], now: Now, columns: tuple[int, int], boxes: int
) -> None:
    """One tile, a box for each 64 columns; place: coordinates of its first element (row, column, head, outermost).

    columns: how many, and what one box further is in the second coordinate; boxes: of a copy.
    """
    pipe = producing(pipes, step.operation, step.lane)
    before(pipes, step.operation, step.lane, now, once=pipe.once)
    full = barrier(pipes, pipe, pipe.full, step.lane, now)
    first = (step.lane if pipe.copies else slot(pipe, now)) * boxes
    row, column, head, axis = place
    for index in range(-(-columns[0] // plan.box_columns)):
        source = box.source[None, row, column + index * columns[1], head, axis]
        cute.copy(box.atom, source, box.boxes[None, first + index], tma_bar_ptr=full)
