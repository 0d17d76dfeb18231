"""What each rank has to compute and to be sent, as numbers: without the parts themselves, and so for a thousand ranks too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnspec.distributed.layout import SequenceLayout, layout_from
from attnspec.distributed.pieces import Piece, pieces
from attnspec.distributed.visible import TILE, Sight, intervals, tiles_seen, union

Floats = NDArray[np.float64]
MOST_RUNS = 16
LEAST_RUN = 2048  # positions of a run whose kernel takes much longer than its launch


@dataclass(frozen=True)
class Widths:
    """What a position holds."""

    heads: int
    kv_heads: int
    head_dim: int
    width_v: int

    @property
    def key_bytes(self) -> int:
        """Of k and v, 16 bits."""
        return 2 * self.kv_heads * (self.head_dim + self.width_v)

    @property
    def query_bytes(self) -> int:
        """Of q and out, 16 bits."""
        return 2 * self.heads * (self.head_dim + self.width_v)


@dataclass(frozen=True)
class Load:
    """By rank of the queries and rank of the keys, over the batch. positions: of keys, in all.

    work: visible tiles of 128 x 128 of one head. rows: of keys that the one sees, its own included. calls: of kernels, one for
    each run of queries that sees a run of keys; runs: of each rank, those of its queries that see anything. sequences: how many.
    """

    widths: Widths
    positions: int
    work: Floats
    rows: Floats
    calls: Floats
    runs: Floats
    sequences: int

    @property
    def ranks(self) -> int:
        """How many."""
        return len(self.work)

    @property
    def sent(self) -> Floats:
        """Rows that a ring sends, by receiver and owner."""
        return self.rows * (1 - np.eye(self.ranks))

    @property
    def balance(self) -> float:
        """Mean work of a rank over the largest: 1 where all have the same, 1 / ranks where one has it all."""
        totals = self.work.sum(1)
        return float(totals.mean() / totals.max()) if totals.max(initial=0.0) > 0 else 1.0


def load_of(
    sight: Sight,
    widths: Widths,
    layout_q: SequenceLayout,
    layout_kv: SequenceLayout,
    queries: Sequence[Piece],
    keys: Sequence[Piece],
) -> Load:
    """The load of a call whose rows and keys are in these pieces."""
    batch = 1 if sight.sizes.is_packed else sight.sizes.batch
    work, rows, calls = (np.zeros((layout_q.ranks, layout_kv.ranks)) for _ in range(3))
    mine = np.zeros(layout_q.ranks)
    of_sequence: dict[int, list[Piece]] = {}
    for key in keys:
        of_sequence.setdefault(key.sequence, []).append(key)
    seen: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for query, its in zip(queries, intervals(sight, queries), strict=True):
        there = [key for key in of_sequence.get(query.sequence, ()) if its and key.first < its[-1][1] and its[0][0] < key.last]
        if there:
            edges = np.array([there[0].first, *(key.last for key in there)])
            owners = [key.rank for key in there]
            np.add.at(work[query.rank], owners, tiles_seen(sight, query, edges))
            np.add.at(calls[query.rank], owners, 1)
            mine[query.rank] += 1
            seen.setdefault((query.rank, query.sequence), set()).update(its)
    for (rank, sequence), runs in seen.items():
        there = of_sequence[sequence]
        firsts, lasts = np.array([key.first for key in there]), np.array([key.last for key in there])
        for first, last in union({(first // TILE * TILE, last) for first, last in runs}):
            counts = np.clip(np.minimum(lasts, last) - np.maximum(firsts, first), 0, None)
            np.add.at(rows[rank], [key.rank for key in there], counts)
    sequences = len({query.sequence for query in queries})
    return Load(widths, layout_kv.length * batch, work * batch, rows * batch, calls, mine, sequences)


def load_of_layouts(sight: Sight, widths: Widths, layout_q: SequenceLayout, layout_kv: SequenceLayout) -> Load:
    """The load of a batch."""
    return load_of(sight, widths, layout_q, layout_kv, pieces(layout_q), pieces(layout_kv))


def runs_of(length: int, ranks: int) -> int:
    """How many runs a rank a balanced layout is best tried with: more even out more, but each pair of runs is a kernel call."""
    return max(2, min(MOST_RUNS, length // (ranks * LEAST_RUN)))


def balanced(sight: Sight, length: int, ranks: int, runs: int) -> SequenceLayout:
    """A layout of `runs` runs a rank, as many positions each, that shares out what is visible: zigzag, for any mask.

    Runs by falling work, a round of as many as there are ranks at a time: the heaviest to the rank that has least so far.
    """
    count = runs * ranks
    cuts = [length * number // count for number in range(count + 1)]
    edges = np.array([0, max(sight.sizes.lengths_kv)])
    work = [float(tiles_seen(sight, Piece(0, cuts[at], cuts[at + 1], 0, 0), edges).sum()) for at in range(count)]
    order = sorted(range(count), key=lambda at: (-work[at], at))
    totals, owner = [0.0] * ranks, [0] * count
    for start in range(0, count, ranks):
        waiting = sorted(range(ranks), key=lambda rank: (totals[rank], rank))
        for rank, at in zip(waiting, order[start : start + ranks], strict=True):
            owner[at] = rank
            totals[rank] += work[at]
    return layout_from(f"balanced:{runs}", ((cuts[at + 1] - cuts[at], owner[at]) for at in range(count)), ranks)
