"""The compute role of the backward: two warpgroups, a thread for each key and half of a tile's queries."""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.blocks import f32, pair
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.query_walk import group, is_masked, keys_of, locate, next_tile, of_head, survey
from attnspec.backends.cute.kernel.work import Work, again, key_tile
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import gradient_step, learned_gradient, merged_step, tensor_memory
from cutlass import Int32


@dataclass(frozen=True)
class _Place:
    """A thread's own: its key in the tile, its first query in it, its columns of S, P, dP, dS, its row of dS in shared memory,
    the 16-byte piece of it that its queries begin with."""

    row: Any
    query: Any
    s: Any
    p: Any
    dp: Any
    ds: Any
    shared: Any
    rows: Any
    piece: Any


@cute.jit
def compute(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: S, dP complete; the rows' numbers full; dS in shared memory read. Signals: P, then dS, in tensor and shared memory.

    P takes the place of S in tensor memory and dS that of dP, each warpgroup in its own half of the columns.
    """
    place, sums = _find_place(plan, tiles), learned_gradient.running_sums(mods)
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        kv = at.sequence.kv_first + at.key + place.row
        there = (cutlass.min(kv, at.kv_last),)
        done = Int32(0)
        for head in cutlass.range(group(at.sizes), unroll=1):
            own = of_head(at, at.h + head)
            found = survey(plan, mods, own, there)
            run = found.run
            (key,) = keys_of(mods, own, there, found)
            for step in cutlass.range(run.trips, unroll=1):
                now = Now(steps + done + step, visited, full)
                query = own.sequence.q_first + key_tile(run, step) * plan.tile_q
                element = gradient_step.Element(kv, query + place.query, own, key)
                is_last = own.kv_first + plan.work_keys > own.kv_end
                is_partial = is_masked(plan, mods, own, found.clear, query) | is_last
                # Two whole steps: where paths meet inside one, every value that differs wants a second register.
                if cutlass.const_expr(mods.merges):
                    _merged_step(plan, tiles, pipes, mods, place, now, element, sums)
                elif is_partial:
                    _step(plan, tiles, pipes, mods, place, now, element, sums, True)
                else:
                    _step(plan, tiles, pipes, mods, place, now, element, sums, False)
            learned_gradient.flush(tiles, mods, sums, gradient_step.Element(kv, Int32(0), own, key))
            done += run.trips
        steps += done
        visited += 1
        full += Int32(done > 0)
        tile = next_tile(plan, work, tile)


def _find_place(plan: BackwardPlan, tiles: BackwardTiles) -> _Place:
    thread = cute.arch.thread_idx()[0]
    half = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // 4
    row = thread % plan.tile_kv
    tensor = tiles.starts.load()
    first = plan.first_query(half)

    def columns(column: int) -> Any:
        return tensor_memory.warp_address(tensor, column + first, row // 32)

    shared, piece = tiles.shared + plan.ds_offset + row * plan.row_bytes, 0
    if plan.ctas > 1:
        shared, piece = shared + pair.rank() * (plan.tile_kv * plan.row_bytes), first // gradient_step.PIECE
    elif plan.half < plan.box_columns:
        piece = half * (plan.half // gradient_step.PIECE)
    else:
        shared += half * (plan.tile_kv * plan.row_bytes)
    rows = tiles.shared + plan.rows_offset + first * 4
    places = (columns(column) for column in (plan.s_column, plan.p_column, plan.dp_column, plan.ds_column))
    return _Place(row, first, *places, shared, rows, piece)


def _step(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    pipes: Pipes,
    mods: BackwardMods,
    place: _Place,
    now: Now,
    element: gradient_step.Element,
    sums: Any,
    is_partial: bool,
) -> None:
    """One step of the thread's part: S to P, dP to dS. sums: what learned tensors have gathered in registers."""
    element = gradient_step.renewed(element)
    masks = is_partial and not mods.mask_reads
    # Before there are scores: a mask of many instructions, spread over them, would want as many registers more.
    words = gradient_step.visible_words(plan, mods, element, plan.half) if masks else None
    before(pipes, "load_s", None, now)
    rewrites = mods.score_reads or (is_partial and mods.mask_reads)
    if rewrites:
        gradient_step.rewrite(plan, mods, place.s, element, is_partial)
    # All of S at once hides its latency; scored, it would be all tanhs at once.
    at_once = rewrites or mods.score is None
    s = gradient_step.load_part(plan, place.s) if at_once else []
    if at_once:
        after(pipes, "load_s", None, now)
    before(pipes, "exp", None, now)
    rows = place.rows + slot(find(pipes, "rows"), now) * plan.rows_stride
    kept: list[Any] = []
    # A chunk of P at a time, half a chunk where more than that is alive at once: shares of learned tensors, slopes, S beside P.
    count = gradient_step.LOOP_CHUNK if mods.learned else gradient_step.CHUNK
    for first in range(0, plan.half, count):
        at = plan.query(first)
        raw = s[first : first + count] if at_once else gradient_step.load_column(place.s + at, count)
        own = gradient_step.moved(element, at)
        part, slopes = (raw, None) if rewrites else gradient_step.scored(mods, raw, own)
        p = gradient_step.probabilities(mods, part, gradient_step.load_rows(rows + at * 4, count))
        p = gradient_step.masked(p, words, first, 0.0)
        tensor_memory.store(place.p + first // 2, f32.narrow(p, plan.element))
        kept += gradient_step.weighted(p, slopes)
    if not at_once:
        after(pipes, "load_s", None, now)
    after(pipes, "exp", None, now)
    before(pipes, "load_dp", None, now)
    ds: list[Any] = []
    count = gradient_step.LOOP_CHUNK
    coming = tensor_memory.load(place.dp, count)
    for first in range(0, plan.half, count):
        tensor_memory.wait_loads()
        dp, rest, at, following = coming, first + count < plan.half, plan.query(first), plan.query(first + count)
        coming = tensor_memory.load(place.dp + following, count) if rest and not mods.gathers_in_loop else dp
        own = gradient_step.moved(element, at)
        weights = kept[first : first + count]
        minus_delta = gradient_step.load_rows(rows + (plan.tile_q + at) * 4, count)
        found = gradient_step.score_gradients(weights, dp, minus_delta, is_partial or mods.may_hide)
        if mods.gathers_in_loop:
            tensor_memory.store(place.dp + at, f32.words(found))
            coming = tensor_memory.load(place.dp + following, count) if rest else dp
        else:
            learned_gradient.gather(tiles, mods, sums, found, None, own)
        ds += f32.narrow(found, plan.element)
    if mods.gathers_in_loop:
        learned_gradient.gather_in_loop(plan, tiles, mods, sums, place.dp, element)
    learned_gradient.end_diagonals(tiles, mods, sums, gradient_step.moved(element, plan.half))
    after(pipes, "load_dp", None, now)
    before(pipes, "ds", None, now)
    tensor_memory.store(place.ds, ds)
    after(pipes, "ds", None, now)
    before(pipes, "share_ds", None, now)
    gradient_step.share(plan, place.shared, place.row, ds, place.piece)
    after(pipes, "share_ds", None, now)


def _merged_step(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    pipes: Pipes,
    mods: BackwardMods,
    place: _Place,
    now: Now,
    element: gradient_step.Element,
    sums: Any,
) -> None:
    """The same with S and dP both at hand: what both need of the score is never kept. Every step takes the mask."""
    element = gradient_step.renewed(element)
    for name in ("load_s", "load_dp", "exp", "ds", "share_ds"):
        before(pipes, name, None, now)
    rows = place.rows + slot(find(pipes, "rows"), now) * plan.rows_stride
    columns = (place.s, place.p, place.dp, place.ds)
    merged_step.loop(plan, tiles, mods, sums, columns, rows, place.shared, place.row, place.piece, element)
    learned_gradient.end_diagonals(tiles, mods, sums, gradient_step.moved(element, plan.half))
    for name in ("load_s", "load_dp", "exp", "ds", "share_ds"):
        after(pipes, name, None, now)
