"""Which rank holds which positions of a sequence."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnspec.errors import ArgumentError

KINDS = ("contiguous", "zigzag", "striped:N")


@dataclass(frozen=True)
class Span:
    """Positions [first, last) of the whole, held by `rank`; row: where they start in its shard."""

    first: int
    last: int
    rank: int
    row: int

    @property
    def count(self) -> int:
        """Positions."""
        return self.last - self.first


@dataclass(frozen=True)
class SequenceLayout:
    """The spans of a sequence in order of position. A shard is its rank's spans, one after another.

    length: of the whole, in positions. ranks: how many there are; some may hold nothing.
    """

    name: str
    length: int
    ranks: int
    spans: tuple[Span, ...]

    def spans_of(self, rank: int) -> tuple[Span, ...]:
        """The spans of a rank, in the order in which its shard holds them."""
        return tuple(sorted((span for span in self.spans if span.rank == rank), key=lambda span: span.row))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Positions held, by rank."""
        counts = [0] * self.ranks
        for span in self.spans:
            counts[span.rank] += span.last - span.first
        return tuple(counts)

    @cached_property
    def digest(self) -> str:
        """A few letters that differ where the spans do."""
        return blake2b(repr(self.spans).encode(), digest_size=4).hexdigest()

    def positions(self, rank: int) -> NDArray[np.int64]:
        """The position of each row of a shard."""
        parts = [np.arange(span.first, span.last) for span in self.spans_of(rank)]
        return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The position of each row of all shards laid end to end, rank by rank."""
        return np.concatenate([np.zeros(0, np.int64), *(self.positions(rank) for rank in range(self.ranks))])

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each span starts in all shards laid end to end, rank by rank."""
        starts = [0, *accumulate(self.counts)]
        return tuple(starts[span.rank] + span.row for span in self.spans)

    @cached_property
    def is_in_order(self) -> bool:
        """Whether all shards laid end to end are in order of position."""
        return all(start == span.first for start, span in zip(self.starts, self.spans, strict=True))

    def by_position(self, by_rank: Tensor) -> Tensor:
        """Shards laid end to end along the first axis, in order of position. Slices alone: an index would wait for the host."""
        if self.is_in_order:
            return by_rank
        return torch.cat([by_rank[start : start + span.count] for start, span in zip(self.starts, self.spans, strict=True)])

    def by_rank(self, whole: Tensor) -> Tensor:
        """The way back."""
        if self.is_in_order:
            return whole
        return torch.cat([whole[span.first : span.last] for rank in range(self.ranks) for span in self.spans_of(rank)])

    def own(self, whole: Tensor, rank: int, dim: int = 0) -> Tensor:
        """A rank's positions of something whole."""
        parts = [whole.narrow(dim, span.first, span.count) for span in self.spans_of(rank)]
        return torch.cat(parts, dim) if parts else whole.narrow(dim, 0, 0).clone()


Kind = str | SequenceLayout


def layout_from(name: str, runs: Iterable[tuple[int, int]], ranks: int) -> SequenceLayout:
    """Any layout at all. runs: (positions, rank) from position 0 on; runs of one rank that touch become one span."""
    rows = [0] * ranks
    spans: list[Span] = []
    first = 0
    for count, rank in runs:
        if not 0 <= rank < ranks or count < 0:
            raise ArgumentError(f"layout: a run of {count} positions on rank {rank}, wanted 0 or more on a rank below {ranks}")
        if count == 0:
            continue
        if spans and spans[-1].rank == rank:
            spans[-1] = Span(spans[-1].first, first + count, rank, spans[-1].row)
        else:
            spans.append(Span(first, first + count, rank, rows[rank]))
        rows[rank] += count
        first += count
    return SequenceLayout(name, first, ranks, tuple(spans))


def contiguous(length: int, ranks: int) -> SequenceLayout:
    """A run a rank, cut as `torch.chunk` and `Shard` of DTensor cut: the last shards may be short, or empty."""
    size = -(-length // ranks)
    runs = ((max(0, min(length, (rank + 1) * size) - rank * size), rank) for rank in range(ranks))
    return layout_from("contiguous", runs, ranks)


def zigzag(length: int, ranks: int) -> SequenceLayout:
    """Two runs a rank, one from either end: what a causal mask leaves is then alike for all."""
    pieces = 2 * ranks
    cuts = [length * piece // pieces for piece in range(pieces + 1)]
    runs = ((cuts[piece + 1] - cuts[piece], min(piece, pieces - 1 - piece)) for piece in range(pieces))
    return layout_from("zigzag", runs, ranks)


def striped(length: int, ranks: int, stripe: int) -> SequenceLayout:
    """Runs of `stripe` positions, dealt to the ranks in turn."""
    if stripe < 1:
        raise ArgumentError(f"layout: stripes of {stripe} positions, wanted 1 or more")
    starts = range(0, length, stripe)
    runs = ((min(stripe, length - start), number % ranks) for number, start in enumerate(starts))
    return layout_from(f"striped:{stripe}", runs, ranks)


def layout_of(kind: Kind, length: int, ranks: int) -> SequenceLayout:
    """A layout by name, or the given one if it fits."""
    if isinstance(kind, SequenceLayout):
        if (kind.length, kind.ranks) != (length, ranks):
            made = f"{kind.length} positions over {kind.ranks} ranks"
            raise ArgumentError(f"layout: {kind.name} was made for {made}, but there are {length} over {ranks}")
        return kind
    name, _, stripe = kind.partition(":") if isinstance(kind, str) else (kind, "", "")
    if name == "contiguous" and not stripe:
        return contiguous(length, ranks)
    if name == "zigzag" and not stripe:
        return zigzag(length, ranks)
    if name == "striped" and stripe.isdecimal():
        return striped(length, ranks, int(stripe))
    raise ArgumentError(f"layout: {kind!r}, wanted one of {', '.join(KINDS)}, or a SequenceLayout")
