"""Runs of tiles that a walk visits, for given lengths and tensors.

Work and memory go with the runs found and the tiles of the axis that is not walked; nothing here is of the size of the mask.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from attnspec.lowering.analysis.analysed import Range, Walk
from attnspec.lowering.analysis.evaluate import Array, Env, evaluate

Kind = Literal["partial", "full"]
KINDS: tuple[Kind, Kind] = ("partial", "full")
CELLS = 2**22  # entries of one temporary


@dataclass(frozen=True)
class Runs:
    """Runs of equal tiles, in order of the tile at hand and then of the walked axis; parallel int64 and bool arrays.

    at: number of the tile at hand. first, last: tiles of the walked axis, half-open. full: else partial.
    tiles_at, tiles_walked: how many tiles each axis has.
    """

    at: Array
    first: Array
    last: Array
    full: Array
    tiles_at: int
    tiles_walked: int

    def __iter__(self) -> Iterator[list[tuple[Kind, int, int]]]:
        """The list of (kind, first, last) of each tile at hand, empty lists included."""
        starts = np.searchsorted(self.at, np.arange(self.tiles_at + 1))
        items = list(zip(self.full.tolist(), self.first.tolist(), self.last.tolist(), strict=True))
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            yield [(KINDS[full], first, last) for full, first, last in items[start:end]]


@dataclass(frozen=True)
class TileCount:
    """Tiles of one head by class; `total` has those never visited too."""

    visited: int
    partial: int
    full: int
    total: int


def tiles(walk: Walk, tile_q: int, tile_kv: int, len_q: int, len_kv: int, env: Env) -> Runs:
    """Runs of visited tiles. The last tile of an axis ends at its length, and is full if all elements it has are visible.

    env: b, h, hkv, sizes and tensors of one head (`names_for`).
    """
    at_size, at_length, size, length = tile_q, len_q, tile_kv, len_kv
    if walk.axis == "q":
        at_size, at_length, size, length = tile_kv, len_kv, tile_q, len_q
    count, walked = -(-at_length // at_size), -(-length // size)
    if not count or not walked:
        empty = np.zeros(0, np.int64)
        return Runs(empty, empty, empty, empty.astype(bool), count, walked)
    step = max(1, CELLS // (4 * (len(walk.seen) + len(walk.hidden)) ** 2 + 1))
    parts = []
    for start in range(0, count, step):
        at = np.arange(start, min(count, start + step), dtype=np.int64)
        parts.append(runs_of(walk, at, at_size, at_length, size, length, env))
    at, first, last, full = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Runs(at, first, last, full, count, walked)


def runs_of(
    walk: Walk, at: Array, at_size: int, at_length: int, size: int, length: int, env: Env
) -> tuple[Array, Array, Array, Array]:
    """Runs for some tiles at hand: the axis is cut at every end of a range, and each piece asked what covers it."""
    other = "q" if walk.axis == "kv" else "kv"
    ends = {f"{other}_first": at * at_size, f"{other}_last": np.minimum((at + 1) * at_size, at_length) - 1}
    env = env.with_names(**ends)
    seen = [tile_range(item, env, at, size, length) for item in walk.seen]
    hidden = [tile_range(item, env, at, size, length) for item in walk.hidden]
    bounds = [bound for pair in seen + hidden for bound in pair]
    if not seen:
        bounds = [np.zeros_like(at)]
    cuts = np.sort(np.stack(bounds, axis=1), axis=1)
    first, last = cuts[:, :-1], cuts[:, 1:]
    visited, masked = covered(seen, first, last), covered(hidden, first, last)
    kind = np.where(visited & (first < last), np.where(masked, 1, 2), 0)
    return merged(at, first, last, kind)


def tile_range(item: Range, env: Env, at: Array, size: int, length: int) -> tuple[Array, Array]:
    """First and last tile (half-open) that a range meets."""
    first = np.clip(evaluate(item.first, env), 0, length)
    last = np.clip(evaluate(item.last, env), 0, length)
    first, last = first // size, np.where(first < last, -(-last // size), 0)
    shape = at.shape
    return np.broadcast_to(first, shape), np.broadcast_to(np.maximum(first, last), shape)


def covered(ranges: list[tuple[Array, Array]], first: Array, last: Array) -> Array:
    """Which pieces lie in a range; pieces are cut so that each lies in it whole or not at all."""
    found = np.zeros(first.shape, dtype=bool)
    for low, high in ranges:
        found |= (low[:, None] <= first) & (last <= high[:, None])
    return found


def merged(at: Array, first: Array, last: Array, kind: Array) -> tuple[Array, Array, Array, Array]:
    """Runs of the pieces of each tile at hand; pieces of kind 0 are left out, 1 is partial, 2 full."""
    row, column = np.nonzero(kind)
    return joined(at[row], first[row, column], last[row, column], kind[row, column] == 2)


def joined(at: Array, first: Array, last: Array, full: Array) -> tuple[Array, Array, Array, Array]:
    """Pieces in order, with those that touch and are of one kind made one."""
    fresh = np.ones(len(at), dtype=bool)
    fresh[1:] = (at[1:] != at[:-1]) | (full[1:] != full[:-1]) | (first[1:] != last[:-1])
    heads = np.nonzero(fresh)[0]
    tails = np.append(heads[1:], len(at))[: len(heads)] - 1
    return at[heads], first[heads], last[tails], full[heads]


def count_tiles(walk: Walk, tile_q: int, tile_kv: int, len_q: int, len_kv: int, env: Env) -> TileCount:
    """Tiles that a kernel visits, masks, and skips."""
    return count_runs(tiles(walk, tile_q, tile_kv, len_q, len_kv, env))


def count_runs(runs: Runs) -> TileCount:
    """Tiles by class."""
    sizes = runs.last - runs.first
    full = int(sizes[runs.full].sum())
    visited = int(sizes.sum())
    return TileCount(visited, visited - full, full, runs.tiles_at * runs.tiles_walked)
