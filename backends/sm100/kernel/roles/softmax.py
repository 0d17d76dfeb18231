"""The softmax role: a warpgroup for each query tile, a thread for each row."""

from dataclasses import replace

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.shares import following, locate
from attnspec.backends.cute.kernel.work import NUMBER, Work, key_tile, meets, query_tile, visit
from attnspec.backends.sm100.kernel.blocks import softmax_step, staging
from attnspec.backends.sm100.kernel.blocks.softmax_place import Place, find_place, share_row, survey
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Float32, Int32

READERS = ("score", "mask")  # of tensors' tiles, beside the exponentials


@cute.jit
def softmax(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: S complete; the statistics slot empty. Signals: the rescale factor of a step, P in two pieces, then the row's sum.

    S, scored and masked, becomes P = exp2(S - row maximum) in the 16-bit type, over S itself. Bounded scores need no maximum:
    the midpoint of their range stands for it.
    """
    keys = mods.keys
    place = find_place(plan, tiles)
    lane, thread = place.lane, place.thread
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while (tile & NUMBER) < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, at, keys(at))
        trips = run.trips
        own = query_tile(plan, work, at, lane, thread)
        q = cutlass.min(own.q_first + own.place, own.q_last)
        masked, row = survey(mods, own, q)
        row_max, row_sum = Float32(-Float32.inf if mods.midpoint is None else mods.midpoint), Float32(0.0)
        for step in cutlass.range(trips, unroll=1):
            now = Now(steps + step, visited, full)
            key = own.kv_first + key_tile(run, step) * plan.tile_kv
            # Two whole steps, not one with a mask inside a branch: where paths meet, every score wants a second register.
            element = softmax_step.Element(q, key, own, row)
            if meets(plan, own, masked, key):
                row_max, row_sum = _step(plan, pipes, mods, place, now, element, True, row_max, row_sum)
            else:
                row_max, row_sum = _step(plan, pipes, mods, place, now, element, False, row_max, row_sum)
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
    row_max: Float32,
    row_sum: Float32,
) -> tuple[Float32, Float32]:
    """One step of the row: S to P. Gives the row's maximum and sum."""
    lane = place.lane
    fetched = staging.fetch(plan, mods, element, place.thread, is_partial)
    before(pipes, "load_s", lane, now)
    if mods.stages:
        late = softmax_step.reads_late(plan, mods)
        element = replace(element, staged=staging.put(plan, mods, fetched, place, element.at.place, late))
    for kind in READERS:
        before(pipes, kind, lane, now)
    s = softmax_step.finished_scores(plan, mods, place.s, element, is_partial)
    for kind in ("load_s", *READERS):
        after(pipes, kind, lane, now)
    if mods.midpoint is None:
        row_max, factor = softmax_step.new_maximum(plan, mods, s, row_max)
        before(pipes, "share_scale", lane, now)
        place.stats.store(factor)
        after(pipes, "share_scale", lane, now)
        row_sum = row_sum * factor
    shift = softmax_step.shift(mods, row_max)
    for piece in ("exp_head", "exp_tail"):
        before(pipes, piece, lane, now)
        softmax_step.exponentials(plan, mods, s, element, is_partial, shift, place.p, piece)
        after(pipes, piece, lane, now)
    return row_max, softmax_step.add_row(s, row_sum)
