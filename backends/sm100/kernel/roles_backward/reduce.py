"""The reduce role of the backward: a warpgroup that moves dQ of each step to shared memory, and stores dK and dV at the end."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import LANES
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.query_walk import locate, next_tile, steps_of
from attnspec.backends.cute.kernel.work import Work, again
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import gradient_output
from cutlass import Int32


@cute.jit
def reduce(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, work: Work, mods: BackwardMods):
    """Waits: dQ complete; a staging slot empty; at the end dK and dV complete. Signals: the slot full; dQ, dK, dV read.

    A key tile that no query sees has dK = dV = 0.
    """
    thread = cute.arch.thread_idx()[0] % LANES
    tile, steps, visited, full = again(work.first), Int32(0), Int32(0), Int32(0)
    while tile < work.count:
        at = locate(plan, work, tile)
        trips = steps_of(plan, mods, at)
        for step in cutlass.range(trips, unroll=1):
            now = Now(steps + step, visited, full)
            for piece in cutlass.range_constexpr(plan.dq_pieces):
                _drain(plan, tiles, pipes, now, piece, thread)
        steps += trips
        end = Now(steps, visited, full)
        gradient_output.finish(plan, tiles, pipes, "store_dv", end, at, thread, None, trips > 0)
        gradient_output.finish(plan, tiles, pipes, "store_dk", end, at, thread, mods.scale, trips > 0)
        visited += 1
        full += Int32(trips > 0)
        tile = next_tile(plan, work, tile)


def _drain(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, piece: int, thread: Any) -> None:
    """A piece of a row of dQ (of a column, where there are parts): out of tensor memory at once, so that its columns
    are free, then to shared memory in chunks.
    """
    count = plan.dq_columns // plan.dq_pieces
    columns = range(piece * count, (piece + 1) * count)
    before(pipes, f"load_dq_{piece}", None, now)
    words = gradient_output.load_query_gradient(plan, tiles, thread, columns[:: plan.chunk])
    after(pipes, f"load_dq_{piece}", None, now)
    for at, first in enumerate(columns[:: plan.chunk]):
        name = f"stage_dq_{first // plan.chunk}"
        before(pipes, name, None, now)
        part = words[at * plan.chunk : (at + 1) * plan.chunk]
        gradient_output.stage(plan, tiles, pipes, now, first // plan.chunk, thread, part)
        after(pipes, name, None, now)
