"""Run a draft on barriers as the hardware has them: phases, arrival counts, bytes, a memory that knows whose value it holds.

Shares no ordering argument with `verify`: warps run their programs, wait on one bit of a barrier, and find in memory what is
there. Self-timed on given prices; jitter stretches durations at random, for other interleavings.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from attnspec.lowering.schedule.accesses import Accesses, instances
from attnspec.lowering.schedule.machine import Barrier, Memory
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.schedule import Channel, Draft, Role
from attnspec.lowering.schedule.unroll import Occurrence, Use, unroll, uses

# Warp w of a warpgroup owns rows 32w .. 32w + 31 of every tile; where warps multiply for themselves, each its own.
LANE_GROUPS = 4
MOST_FAULTS = 20


@dataclass(frozen=True)
class Simulation:
    """What happened. starts: when each run began; stuck: who waits for what, if not every role came to its end."""

    faults: tuple[str, ...]
    stuck: tuple[str, ...]
    starts: dict[Occurrence, float]

    @property
    def is_fine(self) -> bool:
        """Whether every role came to its end and every value was found where and when it should be."""
        return not self.faults and not self.stuck

    def interval(self, operation: str, first: int, last: int) -> float:
        """Cycles a step between two runs of an operation in the first tile."""
        start, end = (self.starts[Occurrence(operation, 0, step)] for step in (first, last))
        return (end - start) / (last - first)


def simulate(draft: Draft, prices: Prices, trips: tuple[int, ...], *, jitter: float = 0.0, seed: int = 0) -> Simulation:
    """Run tiles of so many steps. jitter: most that a duration is stretched by, as a factor of it; seed: which are."""
    return _Run(draft, prices, trips, jitter, Random(seed)).run()


@dataclass
class _Warp:
    """A warp in its program; groups: lanes of a tile that it works on."""

    role: Role
    number: int
    groups: tuple[int, ...]
    rest: Iterator[Occurrence]
    doing: str = "has not begun"


def _lane_groups(draft: Draft) -> int:
    """Owners of rows of a tile: the warps that multiply for themselves, or those of a warpgroup."""
    products = draft.dataflow.register_products
    roles = (role for role in draft.roles if products & {step.operation for step in role.program})
    return max((len(role.warps) for role in roles), default=LANE_GROUPS)


def _awaited(draft: Draft, trips: tuple[int, ...]) -> dict[Occurrence, list[Occurrence]]:
    """For each run the products in registers that its warp waits for first; a product follows another without waiting."""
    flow, found = draft.dataflow, {}
    for value in flow.values:
        if value.producer in flow.register_products and value.consumer not in flow.register_products:
            for product, run in instances(flow, value, trips):
                found.setdefault(run, []).append(product)
    return found


class _Run:
    def __init__(self, draft: Draft, prices: Prices, trips: tuple[int, ...], jitter: float, random: Random) -> None:
        self.draft, self.prices, self.jitter, self.random = draft, prices, jitter, random
        self.accesses = Accesses(draft, trips)
        self.barriers: dict[tuple[str, str, int], Barrier] = {}
        self.waits: dict[Occurrence, list[tuple[Use, str]]] = {}
        self.arrivals: dict[Occurrence, list[tuple[Use, str]]] = {}
        for channel in draft.channels:
            self._add_channel(channel, trips)
        runs = {role.name: list(unroll(draft.dataflow, role, trips)) for role in draft.roles}
        flat = [run for sequence in runs.values() for run in sequence]
        read = [place for run in flat for _, place in self.accesses.reads(run)]
        self.memory = Memory([*read, *(place for run in flat for place in self.accesses.writes(run))])
        self.now = self.pipe_free = self.committed = 0.0
        self.ticket = count()
        self.events: list[tuple[float, float, int, Callable[[], None]]] = []
        self.faults: list[str] = []
        self.starts: dict[Occurrence, float] = {}
        self.awaited = _awaited(draft, trips)
        self.done: set[tuple[str, int, Occurrence]] = set()
        self.sleepers: dict[tuple[str, int, Occurrence], list[Callable[[], None]]] = {}
        groups = _lane_groups(draft)
        self.warps = [
            _Warp(role, number, (number,) if len(role.warps) == groups else tuple(range(groups)), iter(runs[role.name]))
            for role in draft.roles
            for number in range(len(role.warps))
        ]

    def run(self) -> Simulation:
        for warp in self.warps:
            self._next(warp)
        while self.events and len(self.faults) < MOST_FAULTS:
            self.now, _, _, action = heapq.heappop(self.events)
            action()
        stuck = [f"{warp.role.name} warp {warp.number} {warp.doing}" for warp in self.warps if warp.doing]
        return Simulation(tuple(self.faults), () if self.events else tuple(stuck), self.starts)

    def _add_channel(self, channel: Channel, trips: tuple[int, ...]) -> None:
        for end, arrivals in (("full", channel.full), ("empty", channel.empty)):
            for slot in range(channel.depth if arrivals else 0):
                number = arrivals.count if arrivals else 0
                self.barriers.setdefault((channel.ring, end, slot), Barrier(number, number))
        for use in uses(self.draft.dataflow, self.draft.roles, channel, trips):
            self.arrivals.setdefault(self._group(use.signal)[-1], []).append((use, "full"))
            if channel.empty is not None:
                self.waits.setdefault(self._group(use.acquire)[0], []).append((use, "empty"))
            if use.wait is not None and use.release is not None:
                for waits in (use.wait, use.again):
                    if waits is not None:
                        self.waits.setdefault(self._group(waits)[0], []).append((use, "full"))
                if channel.empty is not None:
                    self.arrivals.setdefault(self._group(use.release)[-1], []).append((use, "empty"))

    def _group(self, run: Occurrence) -> list[Occurrence]:
        """The runs that one is together with: the first of them waits for all, the last signals for all."""
        return [replace(run, operation=name) for name in self.draft.dataflow.group_of(run.operation)]

    def _barrier(self, use: Use, end: str) -> Barrier:
        return self.barriers[use.channel.ring, end, use.n % use.channel.depth]

    def _after(self, cycles: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + cycles, self.random.random(), next(self.ticket), action))

    def _stretched(self, cycles: float) -> float:
        return cycles * (1 + self.random.random() * self.jitter)

    def _next(self, warp: _Warp) -> None:
        run = next(warp.rest, None)
        warp.doing = ""
        if run is not None:
            self._poll(warp, run, list(self.waits.get(run, ())))

    def _poll(self, warp: _Warp, run: Occurrence, waits: list[tuple[Use, str]]) -> None:
        """Pass the waits of a run one by one, sleeping where a barrier says no; then start it."""
        while waits:
            use, end = waits[0]
            barrier = self._barrier(use, end)
            phases = use.n // use.channel.depth + (1 if end == "full" else 0)
            if not barrier.has_parity_of(phases):
                warp.doing = f"is at {run} and waits for {end} of {use.channel.name}, use {use.n}"
                barrier.sleepers.append(lambda: self._after(0.0, lambda: self._poll(warp, run, waits)))
                return
            if barrier.phase != phases:
                self._fault(f"{run} takes phase {barrier.phase} of {use.channel.name} ({end}) for phase {phases}")
            waits.pop(0)
        own = (warp.role.name, warp.number)
        product = next((item for item in self.awaited.get(run, ()) if (*own, item) not in self.done), None)
        if product is not None:
            warp.doing = f"is at {run} and waits for its own {product}"
            self.sleepers.setdefault((*own, product), []).append(lambda: self._poll(warp, run, waits))
            return
        warp.doing = f"is at {run}"
        self._start(warp, run)

    def _finish(self, warp: _Warp, product: Occurrence) -> None:
        """A product in registers is there."""
        key = (warp.role.name, warp.number, product)
        self.done.add(key)
        for wake in self.sleepers.pop(key, ()):
            wake()

    def _start(self, warp: _Warp, run: Occurrence) -> None:
        operation = self.draft.dataflow.operation(run.operation)
        price = self.prices.of(run.operation)
        hold, late = self._stretched(price.hold), self._stretched(price.latency - price.hold)
        if operation.engine == "tensor":
            begin = max(self.now, self.pipe_free)
            self.pipe_free = begin + hold
            self.committed = max(self.committed, begin + hold + late)
            self._effect(warp, run, begin - self.now, hold)
            self._after(self.committed - self.now, lambda: self._arrive(run))
            self._after(self.committed - self.now, lambda: self._finish(warp, run))
            self._next(warp)
        elif operation.engine == "tma" and self.accesses.writes(run):
            self._expect(run)
            self._effect(warp, run, 0.0, hold + late)
            self._after(hold + late, lambda: self._arrive(run))
            self._after(hold, lambda: self._next(warp))
        else:
            self._effect(warp, run, 0.0, hold)
            self._after(hold + late + self.prices.hand_off, lambda: self._arrive(run))
            self._after(hold, lambda: self._next(warp))

    def _effect(self, warp: _Warp, run: Occurrence, delay: float, cycles: float) -> None:
        """Read and write memory from then on, for so many cycles."""
        places = self.accesses.writes(run)

        def begin() -> None:
            self.starts[run] = self.now
            self._read(warp, run)
            self.memory.write(places, warp.groups, None)
            # Before whatever begins at that very cycle because of the end.
            heapq.heappush(self.events, (self.now + cycles, -1.0, next(self.ticket), end))

        def end() -> None:
            self._read(warp, run, kept=True)
            self.memory.write(places, warp.groups, run)

        if delay > 0:
            self._after(delay, begin)
        else:
            begin()

    def _read(self, warp: _Warp, run: Occurrence, *, kept: bool = False) -> None:
        """Look for the values a run reads; kept: at its end, but for the places that it writes itself."""
        own = self.accesses.writes(run) if kept else []
        for writer, place in self.accesses.reads(run):
            if place not in own and not self.memory.holds(place, warp.groups, writer):
                self._fault(f"{run} wants the value of {writer}, finds {self.memory.found(place, warp.groups, writer)}")

    def _expect(self, run: Occurrence) -> None:
        """A load's own arrival, with the bytes it is going to bring."""
        for use, end in self.arrivals.get(run, ()):
            self._barrier(use, end).arrive(1, use.channel.full.bytes)

    def _arrive(self, run: Occurrence) -> None:
        """One arrival of a warp or a commit on each barrier that a run signals; of a load, its bytes."""
        operation = self.draft.dataflow.operation(run.operation)
        for use, end in self.arrivals.get(run, ()):
            if operation.engine == "tma" and end == "full":
                brought = sum(place.last - place.first for place in self.accesses.writes(run))
                self._barrier(use, end).arrive(0, -brought)
            else:
                self._barrier(use, end).arrive(1)

    def _fault(self, text: str) -> None:
        if text not in self.faults:
            self.faults.append(text)
