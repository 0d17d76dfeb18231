"""Runs of positions within one sequence, as a rank holds them: a batch is one sequence, packed ones are cut at their ends."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from attnspec.distributed.layout import SequenceLayout


@dataclass(frozen=True)
class Piece:
    """Positions [first, last) of a sequence, in its own count; row: where they start in the shard of `rank`."""

    sequence: int
    first: int
    last: int
    rank: int
    row: int

    @property
    def count(self) -> int:
        """Positions."""
        return self.last - self.first

    @property
    def rows(self) -> slice:
        """Where they lie in the shard."""
        return slice(self.row, self.row + self.count)


def pieces(layout: SequenceLayout, starts: Sequence[int] | None = None) -> tuple[Piece, ...]:
    """Pieces in order of position. starts: of packed sequences, from 0 to the total; None for a batch."""
    if starts is None:
        return tuple(Piece(0, span.first, span.last, span.rank, span.row) for span in layout.spans)
    found = []
    for span in layout.spans:
        first = span.first
        while first < span.last:
            sequence = bisect_right(starts, first) - 1
            last = min(span.last, starts[sequence + 1])
            start = starts[sequence]
            found.append(Piece(sequence, first - start, last - start, span.rank, span.row + first - span.first))
            first = last
    return tuple(found)
