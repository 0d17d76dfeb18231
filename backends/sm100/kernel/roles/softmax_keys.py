"""The softmax role of one query tile: a warpgroup for each key tile of a step, a thread of each for each row."""

from dataclasses import replace
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, Work, again, key_tile, meets, query_tile, visit
from attnspec.backends.sm100.kernel.blocks import softmax_step, staging
from attnspec.backends.sm100.kernel.blocks.softmax_place import Place, find_place, share_row, survey
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Float32, Int32

PIECES = ("exp_head", "exp_tail")


@cute.jit
def softmax_keys(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: S complete; the row maximum of the key tile before; the statistics slot empty. Signals: the maximum from here on;
    the rescale factor of a step, P in two pieces, then the row's sum, of these key tiles alone.

    Where the walk has an odd number of key tiles, the last step of the last lane has none, and only hands over.
    """
    keys = mods.keys
    place = find_place(plan, tiles)
    lane = place.lane
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        mine = (run.key_tiles + (plan.key_tiles - 1 - lane)) // plan.key_tiles
        own = query_tile(plan, work, at, 0, place.thread)
        q = cutlass.min(own.q_first + own.place, own.q_last)
        masked, row = survey(mods, own, q)
        row_max, row_sum = Float32(-Float32.inf if mods.midpoint is None else mods.midpoint), Float32(0.0)
        for step in cutlass.range(mine, unroll=1):
            now = Now(steps + step, visited, full)
            index = step * plan.key_tiles + lane
            key = own.kv_first + key_tile(run, index) * plan.tile_kv
            # Two whole steps, as in `softmax`.
            element = softmax_step.Element(q, key, own, row)
            if meets(plan, own, masked, key):
                row_max, row_sum = _step(plan, pipes, mods, place, now, element, True, index, row_max, row_sum)
            else:
                row_max, row_sum = _step(plan, pipes, mods, place, now, element, False, index, row_max, row_sum)
        if mine < trips:
            now = Now(steps + mine, visited, full)
            row_max, row_sum = _pass_on(plan, pipes, mods, place, now, row_max, row_sum)
        steps += trips
        share_row(plan, pipes, place, Now(steps, visited, full), row_max, row_sum)
        visited += 1
        full += Int32(trips > 0)
        tile = following(plan, tiles, mods, work, tile)


def _step(
    plan: Plan,
    pipes: Pipes,
    mods: Mods,
    place: Place,
    now: Now,
    element: softmax_step.Element,
    is_partial: bool,
    index: Any,
    row_max: Float32,
    row_sum: Float32,
) -> tuple[Float32, Float32]:
    """One key tile of the row: S to P. Gives the row's maximum so far, and the sum of this lane's key tiles."""
    lane = place.lane
    fetched = staging.fetch(plan, mods, element, place.thread, is_partial)
    before(pipes, "load_s", lane, now)
    if mods.stages:
        late = softmax_step.reads_late(plan, mods)
        element = replace(element, staged=staging.put(plan, mods, fetched, place, element.at.place, late))
    s = softmax_step.finished_scores(plan, mods, place.s, element, is_partial)
    after(pipes, "load_s", lane, now)
    if mods.midpoint is None:
        peak = softmax_step.greatest(plan, s, row_max)
        row_max, row_sum = _exchange(plan, pipes, mods, place, now, index, peak, row_max, row_sum)
    shift = softmax_step.shift(mods, row_max)
    for piece in PIECES:
        before(pipes, piece, lane, now)
        softmax_step.exponentials(plan, mods, s, element, is_partial, shift, place.p, piece)
        after(pipes, piece, lane, now)
    return row_max, softmax_step.add_row(s, row_sum)


def _pass_on(
    plan: Plan, pipes: Pipes, mods: Mods, place: Place, now: Now, row_max: Float32, row_sum: Float32
) -> tuple[Float32, Float32]:
    """A step without a key tile: the same hand-overs, of nothing but the maximum."""
    before(pipes, "load_s", place.lane, now)
    after(pipes, "load_s", place.lane, now)
    if mods.midpoint is None:
        row_max, row_sum = _exchange(plan, pipes, mods, place, now, place.lane, row_max, row_max, row_sum)
    for piece in PIECES:
        before(pipes, piece, place.lane, now)
        after(pipes, piece, place.lane, now)
    return row_max, row_sum


def _exchange(
    plan: Plan,
    pipes: Pipes,
    mods: Mods,
    place: Place,
    now: Now,
    index: Any,
    peak: Float32,
    own: Float32,
    row_sum: Float32,
) -> tuple[Float32, Float32]:
    """The maximum from here on, and the lane's sum under it. peak: of the row's scores at hand; own: what the sum is under.

    O is under the maximum of the key tile before, and so is the factor that it is told.
    """
    # Made anew from what is held anyway: one address more in all of the loop, and some variants spill.
    row = plan.tile_q * 4
    mine = again(place.stats.toint()) + (plan.maxima_offset - plan.stats_offset) - place.lane * row
    before(pipes, "row_max", place.lane, now)
    old = _before_this(mine + (1 - 2 * place.lane) * row, own, index > 0)
    latest = softmax_step.kept(plan, mods, old, f32.larger(peak, old))
    ptx("st.shared.f32 [{$r0}], {$r1};", mine, latest)
    after(pipes, "row_max", place.lane, now)
    before(pipes, "share_scale", place.lane, now)
    place.stats.store(softmax_step.brought(mods, old, latest))
    after(pipes, "share_scale", place.lane, now)
    return latest, row_sum * softmax_step.brought(mods, own, latest)


@cute.jit
def _before_this(address: Int32, own: Float32, is_there: Boolean):
    """The maximum that the other lane handed on; the first key tile finds none."""
    found = own
    if is_there:
        found = ptx("ld.shared.f32 {$w0}, [{$r0}];", address, returns=[Float32])
    return found
