"""Where a softmax thread's own row is, and how the row ends."""

from dataclasses import dataclass
from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.seeking import by_warp
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before
from attnspec.backends.cute.kernel.work import At
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Float32


@dataclass(frozen=True)
class Place:
    """A thread's own: its lane (query tile, or key tile of a step), its row, where its row of S, of P, its statistics and staged
    values are, and the tiles of tensors."""

    lane: Any
    thread: Any
    s: Any
    p: Any
    stats: Any
    staged: Any
    tensors: tuple[Any, ...] = ()


def find_place(plan: Plan, tiles: Tiles) -> Place:
    """By the warpgroup that the thread is in: a lane for each."""
    lane = 0 if plan.lanes == 1 else cute.arch.make_warp_uniform(cute.arch.warp_idx()) // 4
    thread = cute.arch.thread_idx()[0] % plan.tile_q
    tensor = tiles.starts.load()
    s = tensor_memory.warp_address(tensor, plan.s_column + lane * plan.s_stride, thread // 32)
    p = tensor_memory.warp_address(tensor, plan.p_column + lane * plan.p_stride, thread // 32)
    staged = tiles.shared + plan.staged_offset + lane * plan.staged_stride
    tensors = tuple(tiles.shared + tile.offset + lane * tile.stride for tile in plan.tensor_tiles)
    return Place(lane, thread, s, p, tiles.stats + lane * (2 * plan.tile_q) + thread, staged, tensors)


def survey(mods: Mods, at: At, q: Any) -> tuple[Any, Any]:
    """Ranges of keys in which some row of the tile has masked elements, and what the elements of the row at `q` share."""
    return by_warp(lambda: (mods.hidden(at), mods.row(q, at)))


def share_row(plan: Plan, pipes: Pipes, place: Place, end: Now, row_max: Float32, row_sum: Float32) -> None:
    """The row's sum and maximum, for the role that finishes it."""
    before(pipes, "share_row", place.lane, end)
    place.stats.store(row_sum)
    (place.stats + plan.tile_q).store(row_max)
    after(pipes, "share_row", place.lane, end)
