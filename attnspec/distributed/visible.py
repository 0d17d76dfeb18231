"""What runs of query positions see: intervals of keys in closed form, and counts of visible tiles.

Work goes with the runs and the query tiles; nothing is of the size of the mask.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnspec.distributed.pieces import Piece
from attnspec.language.expr import Expr, Search, names, nodes, tensors_read
from attnspec.lowering.analysis.analysed import Range, Walk
from attnspec.lowering.analysis.evaluate import Array, Env, evaluate
from attnspec.lowering.analysis.tiles import covered

TILE = 128
MOST_HEADS = 16  # of a batch element and its heads, counted apart; more are sampled evenly where tiles are counted
CELLS = 2**22  # entries of one temporary
NOWHERE = 2**62  # behind all positions
Intervals = list[tuple[int, int]]


@dataclass(frozen=True)
class Sizes:
    """Of the whole call. lengths_q, lengths_kv: of each packed sequence, or one entry for a batch."""

    batch: int
    heads: int
    kv_heads: int
    lengths_q: tuple[int, ...]
    lengths_kv: tuple[int, ...]
    is_packed: bool = False


def as_values(array: Array) -> Array:
    """Ints as 64-bit ones: a search in a row of 32-bit ones would convert all of it each time."""
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


@dataclass(frozen=True)
class Sight:
    """A walk along keys, with the values that its ends need. tensors: by name, those that it reads, from `as_values`."""

    walk: Walk
    sizes: Sizes
    tensors: Mapping[str, Array] = field(default_factory=dict)

    def env(self, sequences: Array, first: Array, last: Array, sampled: bool = False) -> Env:
        """Names for runs [first, last) of sequences: arrays (runs, batch elements, heads) that broadcast."""
        sizes, used = self.sizes, used_names(self.walk)
        heads = np.arange(sizes.heads if used & {"h", "hkv"} else 1)
        batch = np.arange(sizes.batch if "b" in used and not sizes.is_packed else 1)
        if sampled:
            heads, batch = sample(heads, MOST_HEADS), sample(batch, max(1, MOST_HEADS // min(len(heads), MOST_HEADS)))
        h, b = heads[None, None, :], batch[None, :, None]
        sequences = np.asarray(sequences)[:, None, None]
        return Env(
            {
                "b": sequences if sizes.is_packed else plain(b),
                "h": plain(h),
                "hkv": plain(h) // (sizes.heads // max(1, sizes.kv_heads)),
                "batch": sizes.batch,
                "heads": sizes.heads,
                "kv_heads": sizes.kv_heads,
                "len_q": np.array(sizes.lengths_q, np.int64)[sequences],
                "len_kv": np.array(sizes.lengths_kv, np.int64)[sequences],
                "q_first": np.asarray(first)[:, None, None],
                "q_last": np.asarray(last)[:, None, None] - 1,
            },
            self.tensors,
        )


def plain(values: Array) -> Array:
    """One value as a number."""
    return values if values.size > 1 else np.int64(values.item())


def used_names(walk: Walk) -> set[str]:
    """Names in a walk's ends."""
    return {name for item in (*walk.seen, *walk.hidden) for end in (item.first, item.last) for name in names(end)}


def tensors_of(walk: Walk) -> frozenset[str]:
    """Declared tensors whose values a walk's ends depend on."""
    ends = [end for item in (*walk.seen, *walk.hidden) for end in (item.first, item.last)]
    return frozenset[str]().union(*map(tensors_read, ends))


def sample(values: NDArray[Any], most: int) -> NDArray[Any]:
    """At most so many of them, evenly spaced."""
    return values[np.linspace(0, len(values) - 1, most).round().astype(int)] if len(values) > most else values


def ends_of(item: Range, env: Env) -> tuple[Array, Array]:
    """First and last (half-open) of a range for every run, batch element and head, held to the length."""
    batch = np.asarray(env.names["b"])
    if batch.ndim and batch.shape[0] == 1 and batch.size > 1 and any(isinstance(at, Search) for at in nodes_of(item)):
        # Searches in one row of a tensor are one operation, in several rows one each: an element of the batch at a time.
        parts = [ends_of(item, env.with_names(b=np.int64(b))) for b in batch.ravel()]
        first, last = (np.concatenate(np.broadcast_arrays(*ends), axis=1) for ends in zip(*parts, strict=True))
        return first, last
    first, last = evaluate(item.first, env), evaluate(item.last, env)
    length = env.names["len_kv"]
    first, last = np.broadcast_arrays(np.clip(first, 0, length), np.clip(last, 0, length))
    return first, np.maximum(first, last)


def nodes_of(item: Range) -> Iterator[Expr]:
    """Of both ends."""
    yield from nodes(item.first)
    yield from nodes(item.last)


def intervals(sight: Sight, runs: Sequence[Piece], hidden: bool = False) -> list[Intervals]:
    """For each run the keys that any row of it sees, on any batch element and head: disjoint, in order.

    hidden: those instead that hold every key that some row does not see.
    """
    if not runs:
        return []
    sequences, first, last = (np.array(column) for column in zip(*((at.sequence, at.first, at.last) for at in runs), strict=True))
    env = sight.env(sequences, first, last)
    ranges = [ends_of(item, env) for item in (sight.walk.hidden if hidden else sight.walk.seen)]
    found = []
    for number in range(len(runs)):
        parts = [(low[number].ravel(), high[number].ravel()) for low, high in ranges]
        pairs = {pair for lows, highs in parts for pair in zip(lows.tolist(), highs.tolist(), strict=True)}
        found.append(union(pairs))
    return found


def union(pairs: set[tuple[int, int]]) -> Intervals:
    """Disjoint intervals in order; empty ones are left out, those that touch are joined."""
    joined: Intervals = []
    for first, last in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def hulls(sight: Sight, sequence: int, firsts: Array, lasts: Array) -> list[tuple[Array, Array]]:
    """For each range of the walk and each run of queries, the least interval of keys that holds what its rows see of the range,
    on any batch element and head; of nothing, one that ends before it starts.
    """
    step = max(1, CELLS // (sight.sizes.batch * sight.sizes.heads))
    found: list[list[tuple[Array, Array]]] = [[] for _ in sight.walk.seen]
    for start in range(0, len(firsts), step):
        some = slice(start, start + step)
        count = len(firsts[some])
        env = sight.env(np.full(count, sequence), firsts[some], lasts[some])
        for item, its in zip(sight.walk.seen, found, strict=True):
            low, high = (np.broadcast_to(end, np.broadcast_shapes(end.shape, (count, 1, 1))) for end in ends_of(item, env))
            is_seen = low < high
            its.append((np.where(is_seen, low, NOWHERE).min((1, 2)), np.where(is_seen, high, -1).max((1, 2))))
    return [(np.concatenate([low for low, _ in its]), np.concatenate([high for _, high in its])) for its in found]


def tiles_seen(sight: Sight, run: Piece, edges: Array) -> Array:
    """Visible tiles of a run of queries between each two edges of its sequence's keys, of one head on average.

    edges: non-decreasing key positions. A tile of keys that an edge cuts is counted on both sides.
    """
    firsts = np.arange(run.first, run.last, TILE)
    total = np.zeros(len(edges) - 1)
    step = max(1, CELLS // (len(edges) * max(1, len(sight.walk.seen)) * MOST_HEADS))
    for start in range(0, len(firsts), step):
        total += tiles_of_rows(sight, run, firsts[start : start + step], edges)
    return total


def tiles_of_rows(sight: Sight, run: Piece, firsts: Array, edges: Array) -> Array:
    """The same for some tiles of queries."""
    env = sight.env(np.full(len(firsts), run.sequence), firsts, np.minimum(firsts + TILE, run.last), sampled=True)
    ranges = []
    for item in sight.walk.seen:
        low, high = ends_of(item, env)
        shape = np.broadcast_shapes(low.shape, (len(firsts), 1, 1))
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        ranges.append((low // TILE, np.where(low < high, -(-high // TILE), low // TILE)))
    shape = np.broadcast_shapes(*(low.shape for low, _ in ranges))
    flat = [(np.broadcast_to(low, shape).ravel(), np.broadcast_to(high, shape).ravel()) for low, high in ranges]
    cuts = np.sort(np.stack([end for pair in flat for end in pair], axis=1), axis=1)
    first, last = cuts[:, :-1], cuts[:, 1:]
    held = covered(flat, first, last) & (first < last)
    counts = np.zeros(len(edges) - 1)
    for low, high, is_held in zip(first.T, last.T, held.T, strict=True):
        if is_held.any():
            starts = np.maximum(low[is_held][:, None], edges[:-1] // TILE)
            ends = np.minimum(high[is_held][:, None], -(-edges[1:] // TILE))
            counts += np.maximum(0, ends - starts).sum(0)
    return counts * (len(firsts) / len(cuts))
