"""The steady loop as a graph of events with tokens: is it live, and how many cycles does a step take?

A node is the start of an operation of a step (of a tensor operation: on the pipe), counted in trips of its role; whatever waits
for one of those that are run together waits for the last of them, and what one of them waits for, the first does. An edge says
that the event `after` of trip t + tokens comes at least `cycles` after the event `before` of trip t. The loop is live iff no
circle of edges has less than one token (marked graphs), and its interval is the greatest ratio of cycles to tokens on a circle.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Channel, Draft, ProgramStep, Role
from attnspec.lowering.schedule.seldom import is_seldom


@dataclass(frozen=True)
class EventEdge:
    """reason: program, full NAME or empty NAME."""

    before: str
    after: str
    tokens: int
    cycles: float
    reason: str


@dataclass(frozen=True)
class Circle:
    """A closed walk of edges, each starting where the one before it ends."""

    edges: tuple[EventEdge, ...]

    @property
    def cycles(self) -> float:
        """Cycles around it."""
        return sum(edge.cycles for edge in self.edges)

    @property
    def tokens(self) -> int:
        """Trips around it."""
        return sum(edge.tokens for edge in self.edges)


def steady_edges(draft: Draft, prices: Prices) -> tuple[EventEdge, ...]:
    """Edges of the loop: program order of each role, and both ends of the channels used every step."""
    edges: list[EventEdge] = []
    for role in draft.roles:
        edges += _program(draft, role, prices)
        edges += _products(draft, role, prices)
    steady = [channel for channel in draft.channels if _is_steady(draft, channel)]
    channels = [channel for channel in steady if not (prices.leaves_out and is_seldom(draft.dataflow, channel))]
    stages = {step.operation: step.stage for role in draft.roles for step in role.program}
    for channel in channels:
        tokens = channel.distance + stages[channel.consumers[0]] - stages[channel.producer]
        edges.append(_hand_over(draft, channel.producer, channel.consumers[0], tokens, prices, f"full {channel.name}"))
        if channel.empty is not None:
            edges += _empty(draft, channel, channels, stages, prices)
    return tuple(edges)


def _hand_over(draft: Draft, signals: str, waits: str, tokens: int, prices: Prices, reason: str) -> EventEdge:
    last, first = draft.dataflow.group_of(signals)[-1], draft.dataflow.group_of(waits)[0]
    return EventEdge(last, first, tokens, _seen(draft, last, prices), reason)


def _is_steady(draft: Draft, channel: Channel) -> bool:
    ends = (channel.producer, *channel.consumers)
    return not channel.once_a_tile and all(draft.dataflow.operation(name).rate == "step" for name in ends)


def _program(draft: Draft, role: Role, prices: Prices) -> Iterator[EventEdge]:
    steps: list[ProgramStep] = [step for step in role.program if draft.dataflow.operation(step.operation).rate == "step"]
    for before, after in pairwise(steps):
        yield EventEdge(before.operation, after.operation, 0, occupied(draft, before.operation, prices), "program")
    if steps:
        yield EventEdge(steps[-1].operation, steps[0].operation, 1, occupied(draft, steps[-1].operation, prices), "program")


def occupied(draft: Draft, name: str, prices: Prices) -> float:
    """Cycles until a role goes on to its next operation; a role that multiplies in registers goes on when it has issued."""
    return 0.0 if name in draft.dataflow.register_products else prices.of(name).hold


def _products(draft: Draft, role: Role, prices: Prices) -> Iterator[EventEdge]:
    """Products in registers: the tensor core does one after the other, and the role waits for a result where it reads it."""
    stages = {step.operation: step.stage for step in role.program}
    own = [name for name in stages if name in draft.dataflow.register_products]
    for at, name in enumerate(own):
        last = at + 1 == len(own)
        yield EventEdge(name, own[0 if last else at + 1], int(last), prices.of(name).hold, "tensor core")
    for value in draft.dataflow.values:
        if value.producer in own:
            tokens = value.distance + stages[value.consumer] - stages[value.producer]
            yield EventEdge(value.producer, value.consumer, tokens, awaited(draft.dataflow, value, prices), "result")


def awaited(dataflow: Dataflow, value: Value, prices: Prices) -> float:
    """Cycles from the start of a product in registers until its reader may start, or a product that is only to follow it."""
    price = prices.of(value.producer)
    return price.hold if value.buffer is None and value.consumer in dataflow.register_products else price.latency


def _seen(draft: Draft, name: str, prices: Prices) -> float:
    """Start of an operation to the end of a wait for it; an asynchronous unit's latency is measured to there already."""
    is_threads = draft.dataflow.operation(name).engine == "threads"
    return prices.of(name).latency + (prices.hand_off if is_threads else 0.0)


def _empty(
    draft: Draft, channel: Channel, channels: list[Channel], stages: dict[str, int], prices: Prices
) -> Iterator[EventEdge]:
    """Release of use n to the writer of use n + depth, which may be another channel of the ring."""
    release = channel.consumers[-1]
    for other in channels:
        ahead = channel.uses.offset + channel.depth - other.uses.offset
        if other.ring != channel.ring or ahead % channel.uses.steps:
            continue
        tokens = ahead // channel.uses.steps - channel.distance + stages[other.producer] - stages[release]
        yield _hand_over(draft, release, other.producer, tokens, prices, f"empty {channel.name}")


def check_live(edges: Sequence[EventEdge]) -> None:
    """Raise ScheduleError("deadlock") if a circle has less than one token, naming its operations."""
    scale = 1 + len({edge.before for edge in edges})
    circle = _positive_circle(edges, [1.0 - edge.tokens * scale for edge in edges])
    if circle:
        waits = ", ".join(f"{edge.after} waits for {edge.before} ({edge.reason})" for edge in circle)
        raise ScheduleError("deadlock", f"in the steady loop {waits}")


def critical_circle(edges: Sequence[EventEdge]) -> Circle:
    """The circle of greatest cycles a trip, of a live graph. Newton's iteration: each circle found is slower than the last."""
    ratio, critical = 0.0, Circle(())
    while True:
        found = _positive_circle(edges, [edge.cycles - ratio * edge.tokens for edge in edges])
        if not found:
            return critical
        circle = Circle(tuple(found))
        if circle.cycles / circle.tokens <= ratio * (1 + 1e-12):
            return critical
        ratio, critical = circle.cycles / circle.tokens, circle


def _positive_circle(edges: Sequence[EventEdge], weights: Sequence[float]) -> list[EventEdge]:
    """A circle of positive weight, or nothing (Bellman-Ford for longest paths, from everywhere)."""
    longest = {name: 0.0 for edge in edges for name in (edge.before, edge.after)}
    came: dict[str, EventEdge] = {}
    while True:
        changed = False
        for edge, weight in zip(edges, weights, strict=True):
            if longest[edge.before] + weight > longest[edge.after] + 1e-6:
                longest[edge.after] = longest[edge.before] + weight
                came[edge.after] = edge
                changed = True
        if not changed:
            return []
        circle = _circle_of(came)
        if circle:
            return circle


def _circle_of(came: Mapping[str, EventEdge]) -> list[EventEdge]:
    """A circle among the edges over which longest paths came; there is one only if its weight is positive."""
    seen: dict[str, str] = {}  # from which start a node was first reached
    for start in came:
        node = start
        while node in came and node not in seen:
            seen[node] = start
            node = came[node].before
        if seen.get(node) == start and node in came:
            circle = [came[node]]
            while circle[-1].before != node:
                circle.append(came[circle[-1].before])
            return circle[::-1]
    return []
