"""A graph's steady loop as a problem of modulo scheduling, once roles and places are chosen."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.event_graph import EventEdge, awaited
from attnspec.lowering.schedule.modulo import Item, Problem
from attnspec.lowering.schedule.place_buffers import share_columns
from attnspec.lowering.schedule.prices import UNITS, Prices


def loop_problem(
    dataflow: Dataflow,
    roles: Mapping[str, str],
    depths: Mapping[str, int],
    prices: Prices,
    overlays: Mapping[str, str],
    *,
    glued: bool = False,
) -> Problem:
    """What orders the operations of a step.

    roles: role of each of them. depths: copies of each shared and tensor buffer, all lanes together.
    overlays: buffers that lie over others, and which. glued: the tensor operations that add to one accumulator in a step stay
    next to each other.
    """
    loop = _Loop(dataflow, roles, depths, prices)
    own = dataflow.register_products  # a role goes on when it has issued these: what they hold is the tensor core
    items = tuple(Item(name, prices.of(name).hold, ("tensor core" if name in own else roles[name],)) for name in loop.names)
    edges = loop.whole_groups((*loop.values(), *loop.reuses(), *loop.turns(), *loop.overlaps(overlays)))
    least = max(prices.total(unit) for unit in UNITS)
    labels = _twins(dataflow, roles)
    labels |= {name: labels.get(first, first) for name, first in _glued(dataflow).items()} if glued else {}
    return Problem(items, tuple(edges), least, tuple(labels.items()))


def _twins(dataflow: Dataflow, roles: Mapping[str, str]) -> dict[str, str]:
    """Operations of roles that other lanes have too, by kind: one piece of code runs them all."""
    lanes = {role: {dataflow.operation(name).query_tile for name in roles if roles[name] == role} for role in roles.values()}
    return {
        name: dataflow.operation(name).kind for name, role in roles.items() if len(lanes[role]) == 1 and lanes[role] != {None}
    }


def _glued(dataflow: Dataflow) -> dict[str, str]:
    """The second of two products into one accumulator, as the first."""
    tensor = {operation.name for operation in dataflow.operations if operation.engine == "tensor"}
    return {
        value.consumer: value.producer
        for value in dataflow.values
        if value.distance == 0 and value.buffer is not None and {value.producer, value.consumer} <= tensor
        if value.producer != value.consumer
    }


@dataclass(frozen=True)
class _Loop:
    dataflow: Dataflow
    roles: Mapping[str, str]
    depths: Mapping[str, int]
    prices: Prices

    @property
    def names(self) -> list[str]:
        return [operation.name for operation in self.dataflow.operations if operation.rate == "step"]

    def values(self) -> Iterator[EventEdge]:
        """A value is read after it is written."""
        for value in self._of_steps():
            if value.seldom and self.prices.leaves_out:
                continue
            is_product = value.producer in self.dataflow.register_products
            cycles = awaited(self.dataflow, value, self.prices) if is_product else self.seen(value.producer, value.consumer)
            yield EventEdge(value.producer, value.consumer, value.distance, cycles, "value")

    def whole_groups(self, edges: Iterable[EventEdge]) -> Iterator[EventEdge]:
        """Edges from and to operations that are run together, at the end of all and before all of them; and their order."""
        for edge in edges:
            before, after = self.dataflow.group_of(edge.before), self.dataflow.group_of(edge.after)
            if before == after or (len(before) == 1 and len(after) == 1):
                yield edge
            else:
                yield replace(edge, before=before[-1], after=after[0], cycles=self.seen(before[-1], after[0]))
        for group in self.dataflow.together:
            for one, following in pairwise(group):
                yield EventEdge(one, following, 0, self.prices.of(one).hold, "together")

    def reuses(self) -> Iterator[EventEdge]:
        """A copy is written again after it has been read: registers are one copy, rings and lanes have as many as they have."""
        for value in self._of_steps():
            if value.buffer is None or value.producer == value.consumer:
                continue
            tokens, writer = self._next(value)
            if writer != value.consumer:
                yield EventEdge(value.consumer, writer, tokens, self.seen(value.consumer, writer), "reuse")

    def turns(self) -> Iterator[EventEdge]:
        """Writers of one ring take turns."""
        for buffer in self.dataflow.buffers:
            writers = self.writers(buffer.name)
            if len(writers) > 1 and self._is_stream(buffer.name):
                for at, writer in enumerate(writers):
                    following = writers[(at + 1) % len(writers)]
                    last = at + 1 == len(writers)
                    yield EventEdge(writer, following, int(last), self.prices.of(writer).hold, "turn")

    def overlaps(self, overlays: Mapping[str, str]) -> Iterator[EventEdge]:
        """What lies over another buffer is written after that has been read, and read before that is written again.

        Of several buffers over one, each is written after those named before it have been read, unless they lie side by side.
        """
        for over, under in overlays.items():
            earlier = [name for name in overlays if overlays[name] == under]
            for base in (under, *earlier[: earlier.index(over)]):
                if base == under or share_columns(self.dataflow, over, base):
                    yield from self._overlap(over, base)

    def _overlap(self, over: str, under: str) -> Iterator[EventEdge]:
        for value in self._of_steps():
            for other in self._of_steps():
                if (value.buffer, other.buffer) == (over, under) and self.lane(value.producer) == self.lane(other.producer):
                    first, last, lag = other.consumer, value.producer, self._lag(value.consumer, other.producer, under)
                    yield EventEdge(first, last, -other.distance - lag, self.seen(first, last), "overlay")
                    tokens = self._copies(under) - value.distance + lag
                    yield EventEdge(value.consumer, other.producer, tokens, self.seen(value.consumer, other.producer), "overlay")

    def _lag(self, reader: str, writer: str, under: str) -> int:
        """Steps by which what lies over a buffer comes late, as the graph says: read before the buffer's writer writes again."""
        orders = [value for value in self._of_steps() if value.buffer is None and value.consumer == writer]
        return max((value.distance - self._copies(under) for value in orders if value.producer == reader), default=0)

    def seen(self, before: str, after: str) -> float:
        """Cycles from the start of one operation until another that waits for it may start."""
        price, engine = self.prices.of(before), self.dataflow.operation(before).engine
        if before in self.dataflow.register_products:
            return price.latency
        if self.roles[before] == self.roles[after] and engine != "tma":
            return price.hold
        return price.latency + (self.prices.hand_off if engine == "threads" else 0.0)

    def lane(self, name: str) -> int | None:
        return self.dataflow.operation(name).query_tile

    def writers(self, buffer: str) -> list[str]:
        """Operations of a step that leave values in a buffer, in the order of the graph."""
        found = {value.producer for value in self._of_steps() if value.buffer == buffer}
        return [name for name in self.names if name in found]

    def _of_steps(self) -> list[Value]:
        names = set(self.names)
        return [value for value in self.dataflow.values if value.producer in names and value.consumer in names]

    def _is_stream(self, buffer: str) -> bool:
        """Whether one ring serves all lanes."""
        return buffer in self.depths and any(self.lane(writer) is None for writer in self.writers(buffer))

    def _copies(self, buffer: str) -> int:
        lanes = {self.lane(writer) for writer in self.writers(buffer)}
        return max(1, self.depths.get(buffer, 1) // max(1, len(lanes)))

    def _next(self, value: Value) -> tuple[int, str]:
        """Who writes a value's copy next, and how many steps after it has been read."""
        buffer = str(value.buffer)
        if not self._is_stream(buffer):
            return self._copies(buffer) - value.distance, value.producer
        writers = self.writers(buffer)
        ahead = writers.index(value.producer) + self.depths[buffer]
        return ahead // len(writers) - value.distance, writers[ahead % len(writers)]
