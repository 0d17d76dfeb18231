"""Channels from the graph's edges: a hand-over wherever a value leaves a role or comes from an asynchronous unit.

An edge that a path of other hand-overs already orders gets no channel, and a ring whose reuse such a path orders gets no empty
barriers. Both are read off the order graph; the order of the graph's transitive reduction is unique, so edges may be
judged one by one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.order import Order
from attnspec.lowering.schedule.schedule import Arrivals, Channel, Role, Uses
from attnspec.lowering.schedule.seldom import is_seldom

TRIPS = (2, 0, 1, 3, 2)  # tiles without steps, with one, with several: every boundary a path may have to cross
FIRST = (1, 1)  # the first tiles of a CTA, which wait for no earlier uses of a ring


def add_barriers(dataflow: Dataflow, roles: Sequence[Role], depths: dict[str, int]) -> tuple[Channel, ...]:
    """The channels of a graph. depths: copies of each shared or tensor buffer, all query tiles together."""
    trips = (*TRIPS, max(depths.values()) + 2)  # and one in which every ring comes round, with no boundary to help
    wiring = _Wiring(dataflow, tuple(roles), depths, (trips, FIRST))
    channels = wiring.merge([value for value in dataflow.values if wiring.crosses(value)])
    return wiring.drop_empties(wiring.join_rings(wiring.drop_implied(channels)))


def generated_name(value: Value) -> str:
    """An identifier for a value that has no name: `exp_tail_0_to_exp_head_1`."""
    words = f"{value.producer}->{value.consumer}".replace("->", "_to_")
    return "".join(char for char in words.replace("[", "_") if char.isidentifier() or char.isdigit())


@dataclass(frozen=True)
class _Wiring:
    dataflow: Dataflow
    roles: tuple[Role, ...]
    depths: dict[str, int]
    trips: tuple[tuple[int, ...], ...]

    def orders(self, channels: list[Channel], *, empties: bool) -> Iterator[Order]:
        """What happens before what in each of the sequences of tiles; waits that may be left out order nothing."""
        for trips in self.trips:
            yield Order(self.dataflow, self.roles, channels, trips, empties=empties, left_out=self.seldom(channels))

    def role(self, name: str) -> Role:
        return next(role for role in self.roles if any(step.operation == name for step in role.program))

    def place(self, name: str) -> tuple[int, int]:
        """When an operation of one step comes in its role: trip, then position."""
        for at, step in enumerate(self.role(name).program):
            if step.operation == name:
                return step.stage, at
        raise KeyError(name)

    def crosses(self, value: Value) -> bool:
        """Whether an edge needs a barrier: not between operations of one role's warps, nor of its tensor pipe."""
        producer, consumer = (self.dataflow.operation(name) for name in (value.producer, value.consumer))
        if value.producer in self.dataflow.register_products | self.dataflow.stores:
            return False  # its warps wait for it themselves
        if self.role(value.producer) is not self.role(value.consumer):
            return True
        return producer.engine == "tma" or (producer.engine == "tensor" and consumer.engine != "tensor")

    def merge(self, values: list[Value]) -> list[Channel]:
        """One channel for what one producer hands to one role at once, each with a ring of its own and empty barriers."""
        bundles: dict[tuple[object, ...], list[Value]] = {}
        for value in values:
            name = value.name or generated_name(value)
            key = (name, value.producer, value.buffer, value.part, value.distance, self.role(value.consumer).name)
            bundles.setdefault(key, []).append(value)
        return [self._channel(bundle) for bundle in bundles.values()]

    def _channel(self, bundle: list[Value]) -> Channel:
        value = bundle[0]
        consumers = tuple(sorted({item.consumer for item in bundle}, key=self.place))
        producer, last = self.dataflow.operation(value.producer), self.dataflow.operation(consumers[-1])
        tiles = {self.dataflow.operation(name).query_tile for name in (value.producer, *consumers)}
        suffix = f"[{tiles.pop()}]" if len(tiles) == 1 and tiles != {None} else ""
        name = value.name + suffix if value.name else generated_name(value)
        return Channel(
            name=name,
            ring=name,
            producer=value.producer,
            consumers=consumers,
            buffer=value.buffer,
            depth=self.depth(value.buffer),
            uses=Uses(1, 0) if producer.rate == last.rate == "step" else Uses(0, 1),
            full=self.arrivals(producer.name, value),
            empty=self.release(last.name, producer.joint),
            once_a_tile=producer.rate != last.rate or self.dataflow.opens_tile(producer.name),
            distance=value.distance,
        )

    def depth(self, buffer: str | None) -> int:
        """Slots of one ring: copies of the buffer, shared out among the query tiles if there is one for each."""
        if buffer is None:
            return 1
        return max(1, self.depths[buffer] // self.dataflow.lanes) if self.per_query_tile(buffer) else self.depths[buffer]

    def per_query_tile(self, buffer: str) -> bool:
        """Whether a buffer's writers belong to query tiles (`s`), not to the shared stream (`kv`)."""
        writers = [value.producer for value in self.dataflow.values if value.buffer == buffer]
        return all(self.dataflow.operation(name).query_tile is not None for name in writers)

    def arrivals(self, producer: str, value: Value) -> Arrivals:
        """What completes a full barrier: TMA by its bytes, the tensor pipe by a commit, warps by an elected lane each."""
        operation, is_for_joint = self.dataflow.operation(producer), self.dataflow.operation(value.consumer).joint
        if operation.engine == "tma" and value.buffer is not None:
            part = value.part or (0, self.dataflow.buffer(value.buffer).size)
            return self.gathered(Arrivals(1, "tma", part[1] - part[0]), is_for_joint)
        if operation.engine == "tensor":
            return Arrivals(1, "tensor", at="each" if operation.joint else "own")
        return self.gathered(Arrivals(len(self.role(producer).warps), "threads"), is_for_joint)

    def release(self, consumer: str, is_for_joint: bool) -> Arrivals:
        """What completes an empty barrier; a TMA store is waited for by its warp, which then arrives."""
        operation = self.dataflow.operation(consumer)
        if operation.engine == "tensor":
            return Arrivals(1, "tensor", at="each" if operation.joint else "own")
        return self.gathered(Arrivals(len(self.role(consumer).warps), "threads"), is_for_joint)

    def gathered(self, each: Arrivals, is_for_joint: bool) -> Arrivals:
        """What every CTA signals: to itself, or together to the leader, which issues the joint operation that waits for it."""
        if not is_for_joint:
            return each
        ctas = self.dataflow.ctas
        return Arrivals(each.count * ctas, each.engine, each.bytes * ctas, at="leader")

    def drop_implied(self, channels: list[Channel]) -> list[Channel]:
        """Without the channels whose order the others give already.

        A part of a buffer keeps a channel all the same: what is known to be written need not be known to be read before it is
        rewritten.
        """
        needed: set[str] = set()
        for order in self.orders(channels, empties=False):
            needed |= {_sort(use.channel.name) for use, edge in order.full_edges() if not order.without(*edge)}
        kept = {self._part(channel) for channel in channels if _sort(channel.name) in needed}
        alone = [channel for channel in channels if channel.buffer is not None and self._part(channel) not in kept]
        needed |= {_sort(channel.name) for channel in alone}
        return [channel for channel in channels if _sort(channel.name) in needed]

    def seldom(self, channels: list[Channel]) -> list[str]:
        """Channels whose waits may be left out: they order nothing for others."""
        return [channel.name for channel in channels if is_seldom(self.dataflow, channel)]

    def _part(self, channel: Channel) -> tuple[str | None, int]:
        """The buffer that a channel's data lie in, and where they start there."""
        values = self.dataflow.values
        part = next((v.part for v in values if (v.producer, v.buffer) == (channel.producer, channel.buffer)), None)
        return channel.buffer, part[0] if part else 0

    def join_rings(self, channels: list[Channel]) -> list[Channel]:
        """Channels that pass the same place from one role to another take turns in one ring."""
        rings: dict[tuple[object, ...], list[Channel]] = {}
        for channel in channels:
            rings.setdefault(self._ring_key(channel), []).append(channel)
        joined = [item for ring in rings.values() for item in self._take_turns(ring)]
        return sorted(joined, key=lambda channel: [other.name for other in channels].index(channel.name))

    def _ring_key(self, channel: Channel) -> tuple[object, ...]:
        # Whoever leaves waits out must not have to wait for the turn of another lane either.
        waits_seldom = any(value.seldom and value.consumer == channel.producer for value in self.dataflow.values)
        if channel.buffer is None or channel.once_a_tile or waits_seldom or is_seldom(self.dataflow, channel):
            return (channel.name,)
        tile = self.dataflow.operation(channel.producer).query_tile
        is_shared = self.depths[channel.buffer] < self.dataflow.lanes
        ends = (self.role(channel.producer).name, self.role(channel.consumers[0]).name)
        return (*self._part(channel), None if is_shared else tile, *ends)

    def _take_turns(self, ring: list[Channel]) -> list[Channel]:
        """Number the uses of channels in one ring in the order of their producers."""
        if len(ring) == 1:
            return ring
        producers = [self.dataflow.operation(channel.producer) for channel in ring]
        each = {rate: sum(producer.rate == rate for producer in producers) for rate in ("step", "tile")}
        name = self._ring_name(ring)
        result = []
        ordered = sorted(zip(producers, ring), key=lambda item: (item[0].rate, self.place(item[0].name)))
        for _, group in groupby(ordered, key=lambda item: item[0].rate):
            for offset, (_, channel) in enumerate(group):
                result.append(replace(channel, ring=name, uses=Uses(each["step"], each["tile"], offset)))
        return result

    def _ring_name(self, ring: list[Channel]) -> str:
        """Named after the value if all pass the same sort of value, else after the buffer."""
        tiles = {self.dataflow.operation(channel.producer).query_tile for channel in ring}
        sorts = {_sort(channel.name) for channel in ring}
        name = sorts.pop() if len(sorts) == 1 else str(ring[0].buffer)
        return f"{name}[{tiles.pop()}]" if len(tiles) == 1 and tiles != {None} else name

    def drop_empties(self, channels: list[Channel]) -> tuple[Channel, ...]:
        """Without the empty barriers of rings whose reuse other hand-overs order already: a path of them, or one alone, where who
        has read a value hands on another to who writes the next."""
        needed: set[str] = set()
        path: dict[str, list[str]] = {}
        for order in self.orders(channels, empties=True):
            answers = {edge: use.channel.name for use, edge in order.full_edges() if not is_seldom(self.dataflow, use.channel)}
            for use, edge in order.empty_edges():
                if edge in answers:
                    path.setdefault(use.channel.name, [answers[edge]])
                elif not order.without(*edge):
                    needed.add(_sort(use.channel.ring))
                elif use.channel.name not in path:
                    links = order.path(*edge) or []
                    path[use.channel.name] = list(dict.fromkeys(link.channel for link in links if link.channel))
        return tuple(
            channel
            if _sort(channel.ring) in needed
            else replace(channel, empty=None, implied_by=", ".join(path.get(channel.name, ())))
            for channel in channels
        )


def _sort(name: str) -> str:
    """The name without its query tile: query tiles are treated alike, since one piece of code serves them all."""
    return name.partition("[")[0]
