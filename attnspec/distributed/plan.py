"""Which rank computes what, and which keys it needs from whom: derived from the walk, the same on every rank."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from secrets import randbits
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from attnspec.distributed.layout import SequenceLayout
from attnspec.distributed.load import Load, Widths, load_of
from attnspec.distributed.pieces import Piece, pieces
from attnspec.distributed.visible import TILE, Intervals, Sight, hulls, intervals


@dataclass(frozen=True)
class Part:
    """A run of queries against a run of keys of one sequence, each where its own rank holds it.

    is_full: every query sees every key, on every batch element and head. opens: the first part of its queries, which are a whole
    piece of the rank's; the rows of other parts are those alone, by whole tiles, that see the keys.
    """

    queries: Piece
    keys: Piece
    is_full: bool
    opens: bool = True


Pairs = Mapping[tuple[int, int], tuple[Part, ...]]
_ticketed: "WeakValueDictionary[int, Plan]" = WeakValueDictionary()


def new_ticket() -> Tensor:
    """A number that no other plan has, in this process or another: a graph of torch's takes it for an input like any other."""
    return torch.tensor(randbits(62), device="cpu")


def ticketed(number: int) -> "Plan | None":
    """The plan of a number, while somebody holds it."""
    return _ticketed.get(number)


@dataclass(frozen=True)
class Plan:
    """Parts by (rank of the queries, rank of the keys); what has no parts is empty: not computed and not sent.

    needs: the keys of an owner that a rank sees, as pieces of the owner's shard, disjoint and in order of its rows.
    ticket: a number of its own.
    """

    layout_q: SequenceLayout
    layout_kv: SequenceLayout
    sight: Sight
    widths: Widths
    queries: tuple[Piece, ...]
    keys: tuple[Piece, ...]
    parts: Pairs
    needs: Mapping[tuple[int, int], tuple[Piece, ...]]
    ticket: Tensor = field(default_factory=new_ticket, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Found by its ticket from now on."""
        _ticketed[int(self.ticket)] = self

    @property
    def ranks(self) -> int:
        """How many."""
        return self.layout_q.ranks

    @cached_property
    def digest(self) -> str:
        """A few letters that differ where what is computed or sent differs."""
        return blake2b(repr((self.layout_q, self.layout_kv, sorted(self.parts.items()))).encode(), digest_size=8).hexdigest()

    def kind(self, rank: int, owner: int) -> str:
        """`empty`, `partial` or `full`: what the queries of a rank see of the keys of an owner."""
        found = self.parts.get((rank, owner), ())
        if not found:
            return "empty"
        seen = sum(part.queries.count * part.keys.count for part in found if part.is_full)
        whole = sum(
            query.count * key.count
            for query in self.queries
            for key in self.keys
            if (query.rank, key.rank, query.sequence) == (rank, owner, key.sequence)
        )
        return "full" if seen == whole else "partial"

    @cached_property
    def load(self) -> Load:
        """What each rank has to compute and to be sent."""
        return load_of(self.sight, self.widths, self.layout_q, self.layout_kv, self.queries, self.keys)

    @property
    def balance(self) -> float:
        """Mean work of a rank, in visible tiles, over the largest."""
        return self.load.balance

    def explain(self, machine: str = "h200") -> str:
        """Pairs, bytes and work by rank, and what each strategy would cost on a machine of `estimate.MACHINES`."""
        from attnspec.distributed.estimate import MACHINES
        from attnspec.distributed.explain import explain

        return explain(self, MACHINES[machine])


def make_plan(
    sight: Sight,
    widths: Widths,
    layout_q: SequenceLayout,
    layout_kv: SequenceLayout,
    starts_q: Sequence[int] | None = None,
    starts_kv: Sequence[int] | None = None,
) -> Plan:
    """The plan of a call. starts: of packed sequences, whose layouts count positions of all of them together."""
    queries, keys = pieces(layout_q, starts_q), pieces(layout_kv, starts_kv)
    seen, hidden = intervals(sight, queries), intervals(sight, queries, hidden=True)
    of_sequence: defaultdict[int, list[Piece]] = defaultdict(list)
    for key in keys:
        of_sequence[key.sequence].append(key)
    parts: defaultdict[tuple[int, int], list[Part]] = defaultdict(list)
    for query, its_seen, its_hidden in zip(queries, seen, hidden, strict=True):
        found = []
        for key in of_sequence[query.sequence]:
            for first, last in aligned(its_seen, key):
                run = Piece(key.sequence, first, last, key.rank, key.row + first - key.first)
                is_full = not any(max(low, first) < min(high, last) for low, high in its_hidden)
                found.append(Part(query, run, is_full))
        for part in in_turn(sight, query, found, layout_q.ranks):
            parts[query.rank, part.keys.rank].append(part)
    needs = {pair: needed([part.keys for part in found]) for pair, found in parts.items()}
    return Plan(layout_q, layout_kv, sight, widths, queries, keys, {pair: tuple(found) for pair, found in parts.items()}, needs)


def in_turn(sight: Sight, query: Piece, parts: Sequence[Part], ranks: int) -> list[Part]:
    """The parts of a piece as a ring comes to them, each with the rows that see its keys; of the first owner, that of most rows
    comes first, and has the whole piece.
    """
    if len(parts) < 2:
        return list(parts)
    found = [Part(query, part.keys, True, False) for part in parts if part.is_full]
    partial = [part.keys for part in parts if not part.is_full]
    for keys, rows in zip(partial, rows_that_see(sight, query, partial), strict=True):
        if rows is not None:
            found.append(Part(rows, keys, False, False))
    found.sort(key=lambda part: part.keys.first)
    found.sort(key=lambda part: (part.keys.rank - query.rank) % ranks)
    mine = [part for part in found if part.keys.rank == found[0].keys.rank] if found else []
    if mine:
        widest = max(mine, key=lambda part: part.queries.count)
        found.remove(widest)
        found.insert(0, Part(query, widest.keys, widest.is_full))
    return found


def rows_that_see(sight: Sight, query: Piece, runs: Sequence[Piece]) -> list[Piece | None]:
    """The rows of a piece that see anything of each run of keys, by whole tiles of the sequence; None where there are none."""
    if not runs:
        return []
    cuts = np.unique([query.first, *range(-(-query.first // TILE) * TILE, query.last, TILE), query.last])
    seen = hulls(sight, query.sequence, cuts[:-1], cuts[1:])
    found: list[Piece | None] = []
    for run in runs:
        tiles = np.flatnonzero(np.any([(low < run.last) & (run.first < high) for low, high in seen], axis=0))
        if not tiles.size:
            found.append(None)
            continue
        first, last = int(cuts[tiles[0]]), int(cuts[tiles[-1] + 1])
        found.append(Piece(query.sequence, first, last, query.rank, query.row + first - query.first))
    return found


def aligned(seen: Intervals, key: Piece) -> Intervals:
    """What of a piece is seen, from whole tiles of the sequence on, so that tiles lie as they do without cuts."""
    found: Intervals = []
    for first, last in seen:
        first, last = max(key.first, first // TILE * TILE), min(last, key.last)
        if first >= last:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def needed(runs: Sequence[Piece]) -> tuple[Piece, ...]:
    """The runs of one owner's keys, each position once, in order of its rows."""
    joined: list[Piece] = []
    for run in sorted(runs, key=lambda at: (at.row, at.last)):
        before = joined[-1] if joined else None
        if before is not None and run.row <= before.row + before.count and follows(before, run):
            joined[-1] = Piece(before.sequence, before.first, max(before.last, run.last), before.rank, before.row)
        else:
            joined.append(run)
    return tuple(joined)


def follows(before: Piece, run: Piece) -> bool:
    """Do the rows of two runs count the positions of one sequence alike?"""
    return run.sequence == before.sequence and run.first - before.first == run.row - before.row


def row_in(needs: Sequence[Piece], run: Piece) -> int:
    """Where a run starts in a buffer of the pieces needed, laid end to end."""
    start = 0
    for piece in needs:
        if piece.row <= run.row < piece.row + piece.count and piece.sequence == run.sequence:
            return start + run.row - piece.row
        start += piece.count
    raise KeyError(run)
