"""Barriers and memory for the simulator: a phase bit that waits look at, and bytes that know whose value they hold."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from attnspec.lowering.schedule.accesses import Place
from attnspec.lowering.schedule.unroll import Occurrence


@dataclass
class Barrier:
    """An mbarrier (PTX ISA, mbarrier): pending arrivals and bytes of the phase at hand, and how many phases have ended."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0
    sleepers: list[Callable[[], None]] = field(default_factory=list)

    def arrive(self, count: int, added_bytes: int = 0) -> None:
        """Arrivals, and bytes expected (positive) or come (negative); wakes the sleepers if that ends the phase."""
        self.pending -= count
        self.bytes += added_bytes
        if self.pending <= 0 and not self.bytes:
            self.phase += 1
            self.pending += self.count
            woken, self.sleepers = self.sleepers, []
            for wake in woken:
                wake()

    def has_parity_of(self, phases: int) -> bool:
        """What try_wait.parity tells one who wants `phases` phases ended: whether the phase at hand has not the last's parity."""
        return self.phase % 2 != (phases - 1) % 2


class Memory:
    """Shared and tensor memory, cut where places begin and end, for each of the lane groups that warps own.

    A cell holds the run whose value it has; while a run writes there, nothing.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self._cuts: dict[str, list[int]] = {}
        for place in places:
            self._cuts.setdefault(place.space, []).extend((place.first, place.last))
        self._cuts = {space: sorted(set(cuts)) for space, cuts in self._cuts.items()}
        self._cells: dict[tuple[str, int, int], Occurrence | None] = {}

    def write(self, places: Sequence[Place], groups: Sequence[int], value: Occurrence | None) -> None:
        """Leave a value, or None where a write has begun."""
        for place in places:
            for cut in self._inside(place):
                for group in groups:
                    self._cells[place.space, cut, group] = value

    def holds(self, place: Place, groups: Sequence[int], value: Occurrence) -> bool:
        """Whether all of a place has that run's value."""
        return all(self._cells.get((place.space, cut, group)) == value for cut in self._inside(place) for group in groups)

    def found(self, place: Place, groups: Sequence[int], value: Occurrence) -> str:
        """What is there instead, in words."""
        cells = [self._cells.get((place.space, cut, group)) for cut in self._inside(place) for group in groups]
        other = next((cell for cell in cells if cell != value), None)
        return f"that of {other}" if other is not None else "a place being written, or never written"

    def _inside(self, place: Place) -> list[int]:
        return [cut for cut in self._cuts[place.space] if place.first <= cut < place.last]
