"""Tensor memory of one SM: 128 lanes of 512 columns of 32 bits. PTX ISA 9.7.16.1; FACTS C1.

Held as [column, lane], so that one register of a 32x32b load is a contiguous row.
"""

from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.names import NO_NAMES, Names

COLUMNS, LANES = 512, 128
Array = Any


class TensorMemory:
    """owner: of each column, the number of its allocation, 0 if free."""

    def __init__(self, name: str, checks: frozenset[str], observer: Any, names: Names = NO_NAMES) -> None:
        self.name = name
        self.names = names
        self.words = np.full((COLUMNS, LANES), 0xFFFFFFFF, np.uint32)
        self.floats = self.words.view(np.float32)
        self.written = np.zeros((COLUMNS, LANES), np.bool_)
        self.owner = np.zeros(COLUMNS, np.int64)
        self.allocations: dict[int, int] = {}
        self.made = 0
        self.may_allocate = True
        self.check_written = "uninitialised" in checks
        self.observer = observer

    def allocate(self, columns: int) -> int | None:
        """First column of a free range, None if there is none now."""
        if columns not in (32, 64, 128, 256, 512):
            raise KernelFault("tensor-allocation", f"{columns} columns: wanted a power of two from 32 to 512")
        if not self.may_allocate:
            raise KernelFault("tensor-allocation", f"{self.name} gave up its right to allocate")
        for first in range(0, COLUMNS, columns):
            if not self.owner[first : first + columns].any():
                self.made += 1
                self.owner[first : first + columns] = self.made
                self.written[first : first + columns] = False
                self.allocations[first] = columns
                return first
        return None

    def free(self, first: int, columns: int) -> None:
        """Give a range back, exactly as it was allocated."""
        if self.allocations.get(first) != columns:
            raise KernelFault("tensor-allocation", f"column {first}, {columns} columns: allocated are {self.allocations}")
        if self.observer is not None:
            self.observer.access(None, self, True, (slice(first, first + columns), slice(0, LANES)), 4)
        del self.allocations[first]
        self.owner[first : first + columns] = 0

    def require(self, first: int, count: int) -> None:
        """Refuse columns that are not allocated."""
        if first < 0 or first + count > COLUMNS or not self.owner[first : first + count].all():
            where = f"columns {first} to {first + count - 1} of {self.name}"
            raise KernelFault("out-of-bounds", f"tensor memory {where} are not all allocated")

    def read(self, actor: Any, columns: Array, lanes: Array) -> Array:
        """Words at broadcast (column, lane) places."""
        self.check(actor, columns, lanes)
        return self.words[columns, lanes]

    def check(self, actor: Any, columns: Array, lanes: Array) -> None:
        """What precedes every read."""
        low, high = span(columns)
        self.require(low, high - low + 1)
        if self.check_written and not self.written[columns, lanes].all():
            column, lane = (int(one[~self.written[columns, lanes]][0]) for one in np.broadcast_arrays(*places(columns, lanes)))
            place = f"column {column}{self.names.in_tensor(column)}, lane {lane} of {self.name}"
            raise KernelFault("uninitialised-tensor", f"tensor memory {place} is read before it is written")
        if self.observer is not None:
            self.observer.access(actor, self, False, (columns, lanes), 4)

    def write(self, actor: Any, columns: Array, lanes: Array, values: Array) -> None:
        """Set words at (column, lane) places."""
        low, high = span(columns)
        self.require(low, high - low + 1)
        self.words[columns, lanes] = values
        self.written[columns, lanes] = True
        if self.observer is not None:
            self.observer.access(actor, self, True, (columns, lanes), 4)


def span(columns: Array) -> tuple[int, int]:
    """First and last column of a slice or an array."""
    if isinstance(columns, slice):
        return columns.start, columns.stop - 1
    return int(columns.min()), int(columns.max())


def places(columns: Array, lanes: Array) -> tuple[Array, Array]:
    """(column, lane) index arrays of slices or arrays, ready to broadcast."""
    two = isinstance(columns, slice), isinstance(lanes, slice)
    column = np.arange(columns.start, columns.stop)[:, None] if two[0] else columns
    lane = np.arange(lanes.start, lanes.stop)[None] if two[1] else lanes
    return column, lane
