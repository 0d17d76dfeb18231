"""The load role of a CTA that shares a work tile: its own k and v, halves of q and dO, and half of the columns of all keys."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.bundles import Box
from attnspec.backends.cute.kernel.pipes import Now, Pipes, await_commits, barrier, before, producing, slot
from attnspec.backends.cute.kernel.query_walk import KeyAt, group, locate, next_tile, of_head, visit, visit_once
from attnspec.backends.cute.kernel.roles_backward.load import load_rows
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from cutlass import Int32

KEYS = ("load_k", "load_v", "load_k_columns")  # once a work tile


@cute.jit
def load_pair(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: the empty sides of k, v, q, dO and rows, in this CTA. Signals: their full sides, through the bytes that TMA counts:
    in the leader, of both; of rows its own.
    """
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        seen = visit_once(plan, mods, at)
        done = Int32(0)
        for head in cutlass.range(group(at.sizes), unroll=1):
            own = of_head(at, at.h + head)
            run = visit(plan, mods, own) if cutlass.const_expr(seen is None) else seen
            for step in cutlass.range(run.trips, unroll=1):
                now = Now(steps + done + step, visited, full)
                _fetch(plan, tiles, pipes, work, own, key_tile(run, step), now, done + step == 0)
            done += run.trips
        steps += done
        visited += 1
        full += Int32(done > 0)
        tile = next_tile(plan, work, tile)
    await_commits(pipes, tuple(step.operation for step in plan.programs["load"]), Now(steps, visited, full))


@cute.jit
def _fetch(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    pipes: Pipes,
    work: Work,
    at: KeyAt,
    query: Int32,
    now: Now,
    is_first: cutlass.Boolean,
):
    """One step of the program."""
    for step in plan.programs["load"]:
        if step.operation in KEYS:
            _keys(plan, tiles, pipes, work, step.operation, at, now, is_first)
        elif step.operation == "load_rows":
            load_rows(plan, tiles, pipes, work, at, query, now)
        else:
            _queries(plan, tiles, pipes, work, step.operation, at, query, now)


@cute.jit
def _keys(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    pipes: Pipes,
    work: Work,
    name: cutlass.Constexpr,
    at: KeyAt,
    now: Now,
    is_first: cutlass.Boolean,
):
    """Keys or values of this CTA; or keys of both, half of the columns, a box of each."""
    if is_first:
        if cutlass.const_expr(name == "load_k_columns"):
            first = at.key - work.rank * plan.tile_kv
            column = _own_columns(plan, work, plan.dk_width, plan.head_dim)
            rows = [_key_row(at, first + cta * plan.tile_kv) for cta in range(plan.ctas)]
            _copy(tiles.k_columns, pipes, name, [(row, column) for row in rows], (at.hkv, at.sequence.key_axis), now)
        else:
            box, width = (tiles.k, plan.head_dim) if name == "load_k" else (tiles.v, plan.head_dim_v)
            places = _blocks(plan, _key_row(at, at.key), width)
            _copy(box, pipes, name, places, (at.hkv, at.sequence.key_axis), now)


def _queries(
    plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, name: str, at: KeyAt, query: Any, now: Now
) -> None:
    """A tile of q or dO: this CTA's half of the rows, or its half of the columns of all rows."""
    sequence, first = at.sequence, query * plan.tile_q
    is_query = name in ("load_q", "load_q_columns")
    width, product_width = (plan.head_dim, plan.dk_width) if is_query else (plan.head_dim_v, plan.dv_width)
    if name.endswith("_columns"):
        box = tiles.q_columns if is_query else tiles.do_columns
        places = [(first + sequence.row_shift, _own_columns(plan, work, product_width, width))]
    else:
        # Never wholly beyond the last row (see `load` of the forward); what stands for such rows is hidden.
        row = cutlass.min(first + work.rank * plan.q_rows, sequence.rows - 1)
        box, places = tiles.q if is_query else tiles.do, _blocks(plan, row + sequence.row_shift, width)
    _copy(box, pipes, name, places, (at.h, sequence.row_axis), now)


def _key_row(at: KeyAt, key: Any) -> Any:
    """Coordinate of a key's row; the last one's for keys beyond it, whose scores are hidden."""
    return cutlass.min(key, at.sequence.keys - 1) + at.sequence.key_shift


def _own_columns(plan: BackwardPlan, work: Work, product_width: int, width: int) -> Any:
    """The first column of this CTA's half; none begins beyond the last one, where a box would have nothing to read."""
    half = product_width // plan.ctas
    return Int32(0) if half >= width else work.rank * half


def _blocks(plan: BackwardPlan, row: Any, width: int) -> list[tuple[Any, Any]]:
    """A place for each 64 columns, by the number of the block."""
    return [(row, block) for block in range(-(-width // plan.box_columns))]


def _copy(box: Box, pipes: Pipes, name: str, places: list[tuple[Any, Any]], outer: tuple[Any, Any], now: Now) -> None:
    """One tile, a box for each place (row, column); outer: head and outermost coordinate."""
    pipe = producing(pipes, name, None)
    before(pipes, name, None, now, once=pipe.once)
    full = barrier(pipes, pipe, pipe.full, None, now)
    first = slot(pipe, now) * len(places)
    for index, (row, column) in enumerate(places):
        cute.copy(box.atom, box.source[None, row, column, *outer], box.boxes[None, first + index], tma_bar_ptr=full)
