"""Global memory: the tensors of a launch, at their addresses in this process, and nothing else."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.shared_memory import UNITS, lane_of

Array = Any


@dataclass(frozen=True)
class Region:
    """Bytes [start, end) that a kernel may touch. base: start rounded down to 16; units: views from base, by element size."""

    name: str
    start: int
    end: int
    base: int
    units: dict[int, Array]
    keep: Any


def region(name: str, start: int, size: int, keep: Any = None) -> Region:
    """Memory of this process as a region. keep: what must stay alive."""
    base = start & ~15
    room = -(-(start + size - base) // 8) * 8
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * room).from_address(base))
    return Region(name, start, start + size, base, {unit: raw.view(dtype) for unit, dtype in UNITS.items()}, keep)


class GlobalMemory:
    """All regions of a launch."""

    name = "global memory"

    def __init__(self, regions: tuple[Region, ...], observer: Any = None) -> None:
        self.regions = tuple(sorted((one for one in regions if one.end > one.start), key=lambda one: one.start))
        self.observer = observer

    def region(self, low: int, high: int, lane: str = "") -> Region:
        """The region that holds [low, high). lane: whose access it is, in words."""
        for one in self.regions:
            if one.start <= low and high <= one.end:
                return one
        near = min(self.regions, key=lambda one: max(one.start - low, high - one.end), default=None)
        where = f"global address {low:#x}, {high - low} bytes{lane}, is in no tensor of the launch"
        if near is not None:
            where += f"; the nearest is {near.name} ({near.end - near.start} bytes), {low - near.start} bytes from its start"
        raise KernelFault("out-of-bounds", where)

    def place(self, addresses: Array, size: int, count: int, actor: Any = None) -> list[tuple[Region, Array, Array]]:
        """(region, lanes, positions in units of `size`) for the lanes that fall in each region."""
        if (addresses % np.uint64(size * count)).any():
            wrong = addresses % np.uint64(size * count) != 0
            bad, lane = int(addresses[wrong][0]), lane_of(actor, wrong)
            raise KernelFault("misaligned", f"global access of {size * count} bytes at {bad:#x}{lane}")
        low, high = int(addresses.min()), int(addresses.max()) + size * count
        for one in self.regions:
            if one.start <= low and high <= one.end:
                index = ((addresses - np.uint64(one.base)) // np.uint64(size)).astype(np.int64)
                return [(one, slice(None), index[None] if count == 1 else index + np.arange(count)[:, None])]
        left = np.arange(len(addresses))
        found: list[tuple[Region, Array, Array]] = []
        while len(left):
            first = int(addresses[left[0]])
            one = self.region(first, first + size * count, lane_of(actor, np.arange(len(addresses)) == left[0]))
            here = (addresses[left] >= np.uint64(one.start)) & (addresses[left] <= np.uint64(one.end - size * count))
            lanes = left[here]
            index = ((addresses[lanes] - np.uint64(one.base)) // np.uint64(size)).astype(np.int64) + np.arange(count)[:, None]
            found.append((one, lanes, index))
            left = left[~here]
        return found

    def load(self, actor: Any, addresses: Array, size: int, count: int) -> Array:
        """(count, lanes) values at consecutive places from each address."""
        result = np.empty((count, len(addresses)), UNITS[size])
        for one, lanes, index in self.place(addresses, size, count, actor):
            result[:, lanes] = one.units[size][index]
        if self.observer is not None:
            self.observer.access(actor, self, False, addresses, size * count)
        return result

    def store(self, actor: Any, addresses: Array, values: Array, size: int) -> None:
        """Values (count, lanes) at consecutive places from each address."""
        for one, lanes, index in self.place(addresses, size, len(values), actor):
            one.units[size][index] = values[:, lanes]
        if self.observer is not None:
            self.observer.access(actor, self, True, addresses, size * len(values))
            self.observer.stored(actor, self, addresses, values)
