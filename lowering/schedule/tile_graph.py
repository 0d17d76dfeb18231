"""A whole work tile as a graph of events: how long until the next tile is as far, and what decides that.

The loop's graph asks how often a step can start. A tile also fills and drains: its first scores come before anything can be
exponentiated, its output is finished when the last product is done. What of this the next tile's prologue hides is a question
of roles (a warpgroup that finishes one tile while another begins the next), and it is answered by the same means: the tile is
unrolled, a token is a tile, and the greatest ratio of cycles to tokens is the period of tiles of so many steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from attnspec.lowering.schedule.accesses import instances
from attnspec.lowering.schedule.event_graph import Circle, EventEdge, awaited, critical_circle, occupied
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.seldom import is_seldom
from attnspec.lowering.schedule.unroll import Occurrence, unroll, uses

LOOK = 6  # steps of a tile long enough that one more costs one interval more


@dataclass(frozen=True)
class TilePeriod:
    """Cycles from one tile to the next where all have `steps` steps. circle: what decides it, nodes as `operation(step)`."""

    steps: int
    cycles: float
    circle: Circle


def tile_period(draft: Draft, prices: Prices, steps: int) -> TilePeriod:
    """The period of tiles of so many steps (at least one)."""
    circle = critical_circle(tuple(tile_edges(draft, prices, steps)))
    return TilePeriod(steps, circle.cycles / circle.tokens, circle)


def tile_overhead(draft: Draft, prices: Prices, interval: float) -> float:
    """Cycles of a tile beyond its steps' intervals: what the next tile does not hide of filling and draining."""
    return tile_period(draft, prices, LOOK).cycles - LOOK * interval


def tile_edges(draft: Draft, prices: Prices, steps: int) -> Iterator[EventEdge]:
    """Edges into one tile, from itself and from the tiles before it, which are as long; `before` comes before `after`."""
    deepest = max(channel.depth for channel in draft.channels)
    last = deepest // steps + 2
    trips = (steps,) * (last + 2)  # what a role that rolls does first of the next tile stands before its last of this one
    timed = _Timed(draft, prices, steps, last)
    for role in draft.roles:
        for before, after in pairwise(unroll(draft.dataflow, role, trips)):
            yield from timed.edge(before, after, occupied(draft, before.operation, prices), "program")
        own = [run for run in unroll(draft.dataflow, role, trips) if run.operation in draft.dataflow.register_products]
        for before, after in pairwise(own):
            yield from timed.edge(before, after, prices.of(before.operation).hold, "tensor core")
    for value in draft.dataflow.values:
        if value.producer in draft.dataflow.register_products:
            for before, after in instances(draft.dataflow, value, trips):
                yield from timed.edge(before, after, awaited(draft.dataflow, value, prices), "result")
    rings: dict[str, dict[int, tuple[Occurrence, Occurrence | None]]] = {}
    for channel in draft.channels:
        leaves_out = prices.leaves_out and is_seldom(draft.dataflow, channel)
        for use in uses(draft.dataflow, draft.roles, channel, trips):
            if use.wait is not None and not leaves_out:
                yield from timed.edge(use.signal, use.wait, timed.seen(use.signal), f"full {channel.name}")
            if channel.empty is not None:
                rings.setdefault(channel.ring, {})[use.n] = (use.acquire, use.release)
    depth = {channel.ring: channel.depth for channel in draft.channels}
    for ring, numbered in rings.items():
        for n, (_, release) in numbered.items():
            following = numbered.get(n + depth[ring])
            if release is not None and following is not None:
                yield from timed.edge(release, following[0], timed.seen(release), f"empty {ring}")


@dataclass(frozen=True)
class _Timed:
    draft: Draft
    prices: Prices
    steps: int
    last: int

    def edge(self, before: Occurrence, after: Occurrence, cycles: float, reason: str) -> Iterator[EventEdge]:
        """The edge, if it leads into the last tile; an edge that has just gone round says so in its tokens."""
        if after.tile == self.last:
            yield EventEdge(self.name(before), self.name(after), after.tile - before.tile, cycles, reason)

    def name(self, occurrence: Occurrence) -> str:
        step = "" if occurrence.step is None else f"({occurrence.step - occurrence.tile * self.steps})"
        return occurrence.operation + step

    def seen(self, occurrence: Occurrence) -> float:
        """Cycles from its start until others may know that it is done: of a store, whose warp waits for it, through the warp."""
        flow = self.draft.dataflow
        is_told_by_threads = flow.operation(occurrence.operation).engine == "threads" or occurrence.operation in flow.stores
        return self.prices.of(occurrence.operation).latency + (self.prices.hand_off if is_told_by_threads else 0.0)
