"""The softmax role: a warpgroup for each query tile, a thread for each row."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.sm100.kernel.blocks import softmax_step, tensor_memory
from attnspec.backends.sm100.kernel.bundles import Mods, Tiles
from attnspec.backends.sm100.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.sm100.kernel.plan import Plan
from attnspec.backends.sm100.kernel.work import Work, key_tile, locate, meets, query_tile, visit
from cutlass import Float32, Int32


@cute.jit
def softmax(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Waits: S complete; the statistics slot empty. Signals: the rescale factor of a step, P in two pieces, then the row's sum.

    S, scored and masked, becomes P = exp2(S - row maximum) in the 16-bit type, over S itself.
    """
    keys, hidden, row_values, sizes = mods.keys, mods.hidden, mods.row, work.sizes
    lane = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // 4
    thread = cute.arch.thread_idx()[0] % plan.tile_q
    s_address = tensor_memory.warp_address(tiles.tensor, plan.s_column + lane * plan.s_stride, thread // 32)
    p_address = tensor_memory.warp_address(tiles.tensor, plan.p_column + lane * plan.s_stride, thread // 32)
    stats = tiles.stats + lane * (2 * plan.tile_q) + thread
    tile, steps, visited, full = work.first, Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        run = visit(plan, sizes, keys(at))
        trips = run.trips
        own = query_tile(plan, work, at, lane)
        q = cutlass.min(own.q_base + thread, own.q_last)
        row = row_values(q, own)
        masked = hidden(own)
        row_max, row_sum = -Float32.inf, Float32(0.0)
        for step in cutlass.range(trips, unroll=1):
            now = Now(steps + step, visited, full)
            first_key = key_tile(run, step) * plan.tile_kv
            is_partial = meets(plan, sizes, masked, first_key)
            before(pipes, "load_s", lane, now)
            s = softmax_step.load_scores(plan, s_address)
            after(pipes, "load_s", lane, now)
            softmax_step.score(plan, mods, s, q, first_key, own, row)
            if is_partial:
                softmax_step.mask(plan, mods, s, q, first_key, own, row)
            row_max, factor = softmax_step.new_maximum(plan, mods, s, row_max)
            before(pipes, "share_scale", lane, now)
            stats.store(factor)
            after(pipes, "share_scale", lane, now)
            shift = softmax_step.shift(mods, row_max)
            for piece in ("exp_head", "exp_tail"):
                before(pipes, piece, lane, now)
                softmax_step.exponentials(plan, mods, s, shift, p_address, piece)
                after(pipes, piece, lane, now)
            row_sum = softmax_step.add_row(s, row_sum * factor)
        steps += trips
        end = Now(steps, visited, full)
        before(pipes, "share_row", lane, end)
        stats.store(row_sum)
        (stats + plan.tile_q).store(row_max)
        after(pipes, "share_row", lane, end)
        visited += 1
        full += Int32(trips > 0)
        tile += work.stride
