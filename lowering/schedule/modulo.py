"""Modulo scheduling: the least interval at which a loop's operations can start over, and in which order they then run.

An operation of a step starts once an interval. What must not overlap (operations of one role, of the tensor pipe) is decided
pair by pair: the step t of `after` comes between the steps t + k and t + k + 1 of `before`, for a whole number k. Longest paths
bound every k; what the bounds leave open is tried out. The search is deterministic: its budget is counted in nodes, not seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

import numpy as np
from attnspec.lowering.schedule.event_graph import EventEdge, check_live, critical_circle
from attnspec.lowering.schedule.refusal import ScheduleError

LARGEST_LAG = 3  # steps that one operation may be ahead of another of its role
NODES = 20_000  # tried in one probe; then it counts as infeasible, and the result as an upper bound
TOLERANCE = 0.0025  # of the interval, between the last feasible probe and the last infeasible one
CLOSE = 1e-6


@dataclass(frozen=True)
class Item:
    """An operation of a step. serial: roles and units that it holds alone, for `hold` cycles."""

    name: str
    hold: float
    serial: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Operations of a loop, and what must come how many cycles after what.

    least: an interval that no order beats (the busiest unit). labels: of some operations; pairs whose operations have the same
    two labels get the same k (roles that run the same code, operations that nothing comes between).
    """

    items: tuple[Item, ...]
    edges: tuple[EventEdge, ...]
    least: float = 0.0
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Timing:
    """A schedule of a loop. starts: cycle at which step 0 of each operation may begin; edges: those given, and those decided.

    is_least: no probe ran out of nodes, so no shorter interval exists but for the tolerance.
    """

    interval: float
    starts: dict[str, float]
    edges: tuple[EventEdge, ...]
    is_least: bool
    nodes: int


def least_interval(problem: Problem, nodes: int = NODES) -> Timing | None:
    """The order of least interval, and of the shortest schedule among those; None if there is no order at all."""
    try:
        check_live(problem.edges)
    except ScheduleError:
        return None
    low = lower_bound(problem)
    best, used, sure = None, 0, True
    for stretch in (1.0, 1.5, 3.0, 10.0):
        probe = _Probe(problem, low * stretch, nodes)
        best, used, sure = probe.run(), used + probe.nodes, sure and not probe.is_exhausted
        if best is not None:
            break
        low *= stretch
    if best is None:
        return None
    high = max(low, _ratio(best[1]))
    while high > low * (1 + TOLERANCE):
        probe = _Probe(problem, (low + high) / 2, nodes)
        found, used, sure = probe.run(), used + probe.nodes, sure and not probe.is_exhausted
        if found is None:
            low = (low + high) / 2
        else:
            best, high = found, max(low, _ratio(found[1]))
    starts, edges = _shortest(problem, high, best, nodes)
    return Timing(max(problem.least, _busiest(problem), _ratio(edges)), starts, edges, sure, used)


def lower_bound(problem: Problem) -> float:
    """An interval that no order beats: the slowest circle of the edges given, the busiest unit, the busiest role."""
    return max(problem.least, _ratio(problem.edges), _busiest(problem))


def _ratio(edges: Sequence[EventEdge]) -> float:
    circle = critical_circle(edges)
    return circle.cycles / circle.tokens if circle.tokens else 0.0


def _busiest(problem: Problem) -> float:
    """Cycles that the busiest role or unit is held in a step."""
    held: dict[str, float] = {}
    for item in problem.items:
        for name in item.serial:
            held[name] = held.get(name, 0.0) + item.hold
    return max(held.values())


_Found = tuple[dict[str, float], tuple[EventEdge, ...]]


def _shortest(problem: Problem, interval: float, best: _Found, nodes: int) -> _Found:
    """The schedule whose first start and last start lie least apart, at that interval."""
    high = max(best[0].values())
    low = 0.0
    while high - low > interval / 50:
        probe = _Probe(problem, interval, nodes // 10, span=(low + high) / 2)
        found = probe.run()
        if found is None:
            low = (low + high) / 2
        else:
            best, high = found, max(found[0].values())
    return best


class _Probe:
    """One interval: is there an order, and which?"""

    def __init__(self, problem: Problem, interval: float, budget: int, span: float = inf) -> None:
        self.problem, self.interval, self.budget = problem, interval, budget
        self.names = [item.name for item in problem.items]
        self.at = {name: index for index, name in enumerate(self.names)}
        self.nodes, self.is_exhausted = 0, False
        pairs = [pair for pair in combinations(problem.items, 2) if set(pair[0].serial) & set(pair[1].serial)]
        self.first = np.array([self.at[one.name] for one, _ in pairs], dtype=int)
        self.second = np.array([self.at[other.name] for _, other in pairs], dtype=int)
        self.hold = np.array([item.hold for item in problem.items])
        labels = dict(problem.labels)
        alike: dict[tuple[str, str], int] = {}
        pair_labels = [(labels.get(one.name, one.name), labels.get(other.name, other.name)) for one, other in pairs]
        self.group = np.array([alike.setdefault(label, len(alike)) for label in pair_labels], dtype=int)
        self.longest = self._longest(span)

    def run(self) -> _Found | None:
        if self.longest is None:
            return None
        found = self._search(self.longest)
        return None if found is None else self._result(found)

    def _longest(self, span: float) -> np.ndarray | None:
        """Longest paths between starts, in cycles, over the edges given."""
        size = len(self.names)
        longest = np.full((size, size), -span)
        np.fill_diagonal(longest, 0.0)
        for edge in self.problem.edges:
            one, other = self.at[edge.before], self.at[edge.after]
            longest[one, other] = max(longest[one, other], edge.cycles - edge.tokens * self.interval)
        for middle in range(size):
            longest = np.maximum(longest, longest[:, middle, None] + longest[None, middle, :])
        return None if np.diagonal(longest).max() > CLOSE else longest

    def _ranges(self, longest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest k of each pair, the same for pairs with the same labels."""
        one, other = self.first, self.second
        low = np.ceil((longest[one, other] + self.hold[other]) / self.interval - CLOSE) - 1
        high = np.floor((-longest[other, one] - self.hold[one]) / self.interval + CLOSE)
        least, most = np.full(len(low), -float(LARGEST_LAG)), np.full(len(high), float(LARGEST_LAG))
        np.maximum.at(least, self.group, low)
        np.minimum.at(most, self.group, high)
        return least[self.group], most[self.group]

    def _search(self, longest: np.ndarray) -> np.ndarray | None:
        self.nodes += 1
        if self.nodes > self.budget:
            self.is_exhausted = True
            return None
        settled = self._settle(longest)
        if settled is None:
            return None
        longest, low, high = settled
        decided = self._all_implied(longest, low) | self._all_implied(longest, high)
        open_pairs = np.flatnonzero((low < high) & ~decided)
        if not len(open_pairs):
            return longest
        holds = self.hold[self.first] + self.hold[self.second]
        pair = min(open_pairs, key=lambda index: (high[index] - low[index], -holds[index], index))
        for lag in sorted(range(int(low[pair]), int(high[pair]) + 1), key=lambda k: (abs(k), -k)):
            tried: np.ndarray | None = longest
            for alike in np.flatnonzero(self.group == self.group[pair]):
                tried = None if tried is None else self._decide(tried, alike, lag)
            found = None if tried is None else self._search(tried)
            if found is not None or self.is_exhausted:
                return found
        return None

    def _settle(self, longest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Decide all pairs that have one k left, as long as there are new ones."""
        while True:
            low, high = self._ranges(longest)
            if (low > high).any():
                return None
            forced = np.flatnonzero((low == high) & ~self._implied(longest, low))
            if not len(forced):
                return longest, low, high
            for pair in forced:
                decided = self._decide(longest, pair, int(low[pair]))
                if decided is None:
                    return None
                longest = decided

    def _implied(self, longest: np.ndarray, lag: np.ndarray) -> np.ndarray:
        """Of each pair, whether paths make that k hold already (of operations without duration two may)."""
        ahead = self.hold[self.first] + lag * self.interval
        behind = self.hold[self.second] - (lag + 1) * self.interval
        one, other = self.first, self.second
        return (longest[one, other] >= ahead - CLOSE) & (longest[other, one] >= behind - CLOSE)

    def _all_implied(self, longest: np.ndarray, lag: np.ndarray) -> np.ndarray:
        """The same of all pairs with the same labels."""
        found = np.ones(len(lag), dtype=bool)
        np.logical_and.at(found, self.group, self._implied(longest, lag))
        return found[self.group]

    def _decide(self, longest: np.ndarray, pair: int | np.intp, lag: int) -> np.ndarray | None:
        one, other = int(self.first[pair]), int(self.second[pair])
        after = _with(longest, one, other, float(self.hold[one]) + lag * self.interval)
        return None if after is None else _with(after, other, one, float(self.hold[other]) - (lag + 1) * self.interval)

    def _result(self, longest: np.ndarray) -> _Found:
        starts = longest.max(axis=0)
        edges = list(self.problem.edges)
        low, high = self._ranges(longest)
        lags = np.where(self._all_implied(longest, high), high, low)
        for one, other, lag in zip(self.first, self.second, lags, strict=True):
            before, after = self.names[one], self.names[other]
            edges.append(EventEdge(before, after, -int(lag), float(self.hold[one]), "order"))
            edges.append(EventEdge(after, before, int(lag) + 1, float(self.hold[other]), "order"))
        return {name: float(start) for name, start in zip(self.names, starts, strict=True)}, tuple(edges)


def _with(longest: np.ndarray, one: int, other: int, cycles: float) -> np.ndarray | None:
    """Longest paths with an edge more; None if that closes a circle of positive length."""
    if longest[one, other] >= cycles - CLOSE:
        return longest
    if longest[other, one] + cycles > CLOSE:
        return None
    return np.maximum(longest, longest[:, one, None] + (cycles + longest[None, other, :]))
