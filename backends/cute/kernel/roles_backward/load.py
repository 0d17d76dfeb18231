"""The load role of the backward: one warp that keeps k and v of a key tile there, and q, dO and their rows' numbers coming."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import BackwardWidths
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Box
from attnspec.backends.cute.kernel.pipes import Now, Pipes, await_commits, barrier, before, producing, slot
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.cute.kernel.query_walk import KeyAt, group, locate, next_tile, of_head, row_tile, visit, visit_once
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from cutlass import Int32, Int64

KEYS = ("load_k", "load_v")  # once a work tile


@cute.jit
def load(plan: BackwardWidths, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: the empty sides of k, v, q, dO and rows. Signals: their full sides, through the bytes that TMA counts.

    Keys and values come once a work tile, in their place among the first step's operations; tiles without steps load nothing.
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
def _fetch(plan, tiles, pipes, work, at: KeyAt, query: Int32, now: Now, is_first: cutlass.Boolean):
    """One step of the program."""
    for step in plan.programs["load"]:
        _one(plan, tiles, pipes, work, step, at, query, now, is_first)


def _one(
    plan: BackwardWidths,
    tiles: BackwardTiles,
    pipes: Pipes,
    work: Work,
    step: Step,
    at: KeyAt,
    query: Any,
    now: Now,
    is_first: Any,
) -> None:
    name = step.operation
    if name in KEYS:
        box, offset_width = (tiles.k, plan.head_dim) if name == "load_k" else (tiles.v, plan.head_dim_v)
        _keys(plan, box, pipes, name, at, now, offset_width, is_first)
    elif name == "load_rows":
        load_rows(plan, tiles, pipes, work, at, query, now)
    else:
        is_query = name == "load_q"
        box, width = (tiles.q, plan.head_dim) if is_query else (tiles.do, plan.head_dim_v)
        _copy(plan, box, pipes, name, (query * plan.tile_q + at.sequence.row_shift, at.h, at.sequence.row_axis), now, width)


@cute.jit
def _keys(plan, box, pipes, name: cutlass.Constexpr, at: KeyAt, now: Now, width: cutlass.Constexpr, is_first: cutlass.Boolean):
    if is_first:
        _copy(plan, box, pipes, name, (at.key + at.sequence.key_shift, at.hkv, at.sequence.key_axis), now, width)


def _copy(plan: BackwardWidths, box: Box, pipes: Pipes, name: str, place: tuple[Any, Any, Any], now: Now, width: int) -> None:
    """One tile, a box for each 64 columns; place: (first row, head, batch)."""
    pipe = producing(pipes, name, None)
    before(pipes, name, None, now, once=pipe.once)
    full = barrier(pipes, pipe, pipe.full, None, now)
    boxes = -(-width // plan.box_columns)
    first = slot(pipe, now) * plan.boxes(width)
    row, head, batch = place
    for column in range(boxes):
        cute.copy(box.atom, box.source[None, row, column, head, batch], box.boxes[None, first + column], tma_bar_ptr=full)


def load_rows(plan: BackwardWidths, tiles: BackwardTiles, pipes: Pipes, work: Work, at: KeyAt, query: Any, now: Now) -> None:
    """What the rows of a query tile bring, as plain bytes (PTX ISA, cp.async.bulk)."""
    pipe = producing(pipes, "load_rows", None)
    before(pipes, "load_rows", None, now)
    full = barrier(pipes, pipe, pipe.full, None, now)
    target = tiles.shared + plan.rows_offset + slot(pipe, now) * plan.rows_stride
    source = (tiles.rows.iterator + Int64(row_tile(work, at, query)) * (plan.rows_bytes // 4)).toint()
    text = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{$r0}], [{$r1}], {$r2}, [{$r3}];"
    with cute.arch.elect_one():
        ptx(text, target, Int64(source), Int32(plan.rows_bytes), full.toint())
