"""Shared memory of one CTA.

Offsets count from the start of the CTA's window; the first 1024 bytes belong to the system (FACTS C8). Every byte has a flag that
tells whether it was written.
"""

from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.names import NO_NAMES, Names

RESERVED = 1024
UNITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
Array = Any


class SharedMemory:
    """size: bytes after the reserved part. alive: False once all warps of the CTA have left."""

    def __init__(self, name: str, size: int, checks: frozenset[str], observer: Any, names: Names = NO_NAMES) -> None:
        self.name = name
        self.names = names
        self.size = RESERVED + size
        room = -(-self.size // 1024) * 1024
        self.bytes = np.full(room, 0xFF, np.uint8)
        self.written = np.zeros(room, np.uint8)
        self.units = {size: self.bytes.view(dtype) for size, dtype in UNITS.items()}
        self.flags = {size: self.written.view(dtype) for size, dtype in UNITS.items()}
        self.chunks = self.bytes.view(np.uint64).reshape(-1, 2)
        self.chunk_flags = self.written.view(np.uint64).reshape(-1, 2)
        self.check_written = "uninitialised" in checks
        self.observer = observer
        self.barriers: dict[int, Any] = {}
        self.guarded = np.zeros(room // 8, np.bool_)
        self.guarded_chunks = self.guarded.reshape(-1, 2)
        self.alive = True

    def load(self, actor: Any, offsets: Array, size: int, count: int) -> Array:
        """(count, lanes) values of `size` bytes at consecutive places from each offset."""
        index = self.index(actor, offsets, size, count)
        if self.check_written and not (self.flags[size][index] == full_flag(size)).all():
            bad = self.flags[size][index] != full_flag(size)
            self.uninitialised(offsets, bad, lane_of(actor, bad.any(0)))
        if self.observer is not None:
            self.observer.access(actor, self, False, offsets, size * count)
        return self.units[size][index]

    def store(self, actor: Any, offsets: Array, values: Array, size: int) -> None:
        """Values (count, lanes) at consecutive places from each offset."""
        index = self.index(actor, offsets, size, len(values))
        if self.guarded[index * size >> 3].any():
            self.overwritten(actor, (index * size)[self.guarded[index * size >> 3]][0])
        self.units[size][index] = values
        self.flags[size][index] = full_flag(size)
        if self.observer is not None:
            self.observer.access(actor, self, True, offsets, size * len(values))
            self.observer.stored(actor, self, offsets, values)

    def index(self, actor: Any, offsets: Array, size: int, count: int) -> Array:
        """Positions in units of `size`; refuses what is misaligned or outside."""
        self.require_alive(actor)
        places = offsets.astype(np.int64)
        if (places % (size * count)).any():
            bad = places[places % (size * count) != 0][0]
            lane = lane_of(actor, places % (size * count) != 0)
            raise KernelFault("misaligned", f"shared access of {size * count} bytes at {self.show(bad)}{lane}")
        if places.min() < RESERVED or places.max() + size * count > self.size:
            wrong = (places < RESERVED) | (places + size * count > self.size)
            self.outside(places[wrong][0], lane_of(actor, wrong))
        return places // size + np.arange(count)[:, None]

    def require_alive(self, actor: Any, barrier: int | None = None) -> None:
        """Refuse to touch the memory of a CTA that has exited. barrier: where the mbarrier is that is touched, if one is."""
        if not self.alive:
            found = None if barrier is None else self.barriers.get(barrier)
            what = f"touches shared memory of {self.name}" if found is None else f"arrives at {found.name}"
            raise KernelFault("exited-cta", f"{actor.name} {what}, whose warps have all exited")

    def gather(self, actor: Any, places: Array, needed: Array | None = None) -> Array:
        """16-byte chunks at byte offsets, as arrays of two u64. needed: of which chunks the values matter, None for all."""
        index = self.chunk_index(actor, places)
        used = places if needed is None else places[needed]
        flags = self.chunk_flags[used >> 4] if self.check_written else None
        if flags is not None and not (flags == full_flag(8)).all():
            self.uninitialised(used.ravel(), (flags != full_flag(8)).any(-1).ravel())
        if self.observer is not None:
            self.observer.access(actor, self, False, used, 16)
        return self.chunks[index]

    def scatter(self, actor: Any, places: Array, values: Array) -> None:
        """Write 16-byte chunks at byte offsets."""
        index = self.chunk_index(actor, places)
        if self.guarded_chunks[index].any():
            self.overwritten(actor, places[self.guarded_chunks[index].any(-1)].ravel()[0])
        self.chunks[index] = values
        self.chunk_flags[index] = full_flag(8)
        if self.observer is not None:
            self.observer.access(actor, self, True, places, 16)

    def chunk_index(self, actor: Any, places: Array) -> Array:
        """Positions of chunks; refuses those outside."""
        self.require_alive(actor)
        low, high = int(places.min()), int(places.max()) + 16
        if low < RESERVED or high > self.size:
            self.outside(low if low < RESERVED else high - 16)
        return places >> 4

    def guard(self, offset: int, barrier: Any) -> None:
        """Put an mbarrier at an offset, or with None take it away: data must not be written over one."""
        self.guarded[offset >> 3] = barrier is not None
        if barrier is None:
            self.barriers.pop(offset, None)
        else:
            self.barriers[offset] = barrier

    def overwritten(self, actor: Any, place: Any) -> None:
        """Tell of data on top of an mbarrier."""
        where = f"the mbarrier at or after {self.show(place)} of {self.name}"
        raise KernelFault("barrier-overwritten", f"{actor.name} writes data over {where}")

    def outside(self, place: Any, lane: str = "") -> None:
        """Tell of a place beyond the memory."""
        end, at = self.show(self.size), self.show(place)
        raise KernelFault("out-of-bounds", f"shared memory of {self.name} ends at {end}; access at {at}{lane}")

    def uninitialised(self, places: Array, bad: Array, lane: str = "") -> None:
        """Tell of the first place that was never written."""
        place = np.broadcast_to(places, np.shape(bad)).ravel()[np.flatnonzero(bad)[0]]
        where = f"shared memory of {self.name} at {self.show(place)}"
        raise KernelFault("uninitialised-shared", f"{where} is read{lane} before it is written")

    def show(self, offset: Any) -> str:
        """An offset as kernel authors count it, from the start of dynamic shared memory; and what lies there."""
        at = int(offset) - RESERVED
        return f"+{at}{self.names.in_shared(at)}"


def lane_of(actor: Any, bad: Array) -> str:
    """The first lane whose access is bad, if there is an access a lane."""
    lanes = np.flatnonzero(actor.lanes) if hasattr(actor, "lanes") else ()
    return f" by lane {lanes[int(np.argmax(bad))]}" if len(lanes) == bad.size else ""


def full_flag(size: int) -> Any:
    """The flags of `size` written bytes as one number."""
    return UNITS[size](int.from_bytes(b"\x01" * size, "little"))
