"""Who touched each place of a memory last: stamps of the last write, and of the last read by each agent.

A stamp is `epoch << 22 | atomic << 21 | position of the instruction`, 0 where there was none.
"""

from typing import Any

import numpy as np
from attnspec.emulator.hazards.memory_order import knows_foreign

SHIFT = 22
ATOMIC = 1 << 21
POSITION = ATOMIC - 1
Array = Any
Found = tuple[int, int, int]  # place, column, stamp


class Ledger:
    """Of one CTA's shared or tensor memory."""

    def __init__(self, places: int) -> None:
        self.writer = np.zeros(places, np.intp)
        self.written = np.zeros(places, np.int64)
        # Rows are touched a page at a time by the system, so unused ones cost nothing.
        self.read = np.zeros((24, places), np.int64)
        self.readers: dict[int, int] = {}
        self.columns = np.zeros(24, np.intp)

    def row(self, column: int) -> Array:
        """Last reads of an agent."""
        at = self.readers.get(column)
        if at is None:
            at = self.readers[column] = len(self.readers)
            if at == len(self.read):
                self.read = np.concatenate([self.read, np.zeros_like(self.read)])
                self.columns = np.concatenate([self.columns, np.zeros_like(self.columns)])
            self.columns[at] = column
        return self.read[at]

    def unordered_write(self, index: Any, limits: Array, atomic: bool) -> Found | None:
        """A last write at `index` that is later than what `limits` (by column) allow."""
        stamps = self.written[index]
        bad = stamps >= limits[self.writer[index]]
        if atomic:
            bad &= stamps & ATOMIC == 0
        if not bad.any():
            return None
        place = position(index, np.flatnonzero(bad)[0])
        return place, int(self.writer[place]), int(self.written[place])

    def unordered_read(self, index: Any, limits: Array) -> Found | None:
        """A last read that is later."""
        count = len(self.readers)
        if not count:
            return None
        bad = self.read[:count, index] >= limits[self.columns[:count]][:, None]
        if not bad.any():
            return None
        row, at = (int(one[0]) for one in np.nonzero(bad))
        place = position(index, at)
        return place, int(self.columns[row]), int(self.read[row, place])

    def note(self, index: Any, column: int, stamp: int, write: bool) -> None:
        """Remember an access."""
        if write:
            self.writer[index] = column
            self.written[index] = stamp
        else:
            self.row(column)[index] = stamp


def position(index: Any, at: Any) -> int:
    """The place at a position of an index."""
    return int(index.start + at) if isinstance(index, slice) else int(index[at])


class GlobalLedger:
    """Of one region of global memory, in units of 2 bytes, for agents of all clusters: `cluster << 24 | column`.

    Of readers the last two of a place are kept, not all: input tensors are read by everyone and written by no one.
    """

    def __init__(self, places: int) -> None:
        self.who = np.zeros((3, places), np.int64)
        self.stamps = np.zeros((3, places), np.int64)

    def unordered(self, index: Any, agent: Any, limits: Array, write: bool, atomic: bool) -> Found | None:
        """An earlier access that is not ordered before: a write, and for a write also a read. Gives (place, who, stamp)."""
        for kind in range(3 if write else 1):
            stamps = self.stamps[kind, index]
            if not stamps.any():
                continue
            who = self.who[kind, index]
            own = who >> 24 == agent.crowd.number
            bad = np.where(own, stamps >= limits[np.where(own, who & 0xFFFFFF, 0)], stamps != 0)
            if atomic:
                bad &= stamps & ATOMIC == 0
            for at in np.flatnonzero(bad):
                if own[at] or not knows_foreign(agent, int(who[at]) >> 24, int(who[at]) & 0xFFFFFF, int(stamps[at]) >> SHIFT):
                    return position(index, at), int(who[at]), int(stamps[at])
        return None

    def note(self, index: Any, who: int, stamp: int, write: bool) -> None:
        """Remember an access."""
        if not write:
            other = self.who[1, index] != who
            self.who[2, index] = np.where(other, self.who[1, index], self.who[2, index])
            self.stamps[2, index] = np.where(other, self.stamps[1, index], self.stamps[2, index])
        at = 0 if write else 1
        self.who[at, index] = who
        self.stamps[at, index] = stamp
