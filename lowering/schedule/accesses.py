"""Which bytes and columns each run of an operation reads and writes, and whose value it must find there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.unroll import Occurrence, uses


@dataclass(frozen=True)
class Place:
    """Half-open range of bytes (shared) or columns (tensor)."""

    space: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{'bytes' if self.space == 'shared' else 'columns'} {self.first} to {self.last} of {self.space} memory"


@dataclass(frozen=True)
class Accesses:
    """The accesses of a draft in a sequence of tiles, found from the graph's values, the uses of channels and the placements."""

    draft: Draft
    trips: tuple[int, ...]

    def reads(self, occurrence: Occurrence) -> list[tuple[Occurrence, Place]]:
        """What a run reads from shared and tensor memory: who wrote it, and where."""
        return self._reads.get(occurrence, [])

    def writes(self, occurrence: Occurrence) -> list[Place]:
        """Where a run writes."""
        if occurrence not in self._writes:
            places = (self._place(occurrence, value) for value in self._outputs.get(occurrence.operation, ()))
            self._writes[occurrence] = list(dict.fromkeys(places))
        return self._writes[occurrence]

    @cached_property
    def _writes(self) -> dict[Occurrence, list[Place]]:
        return {}

    @cached_property
    def _outputs(self) -> dict[str, list[Value]]:
        outputs: dict[str, list[Value]] = {}
        for value in self._in_memory:
            outputs.setdefault(value.producer, []).append(value)
        return outputs

    @cached_property
    def _reads(self) -> dict[Occurrence, list[tuple[Occurrence, Place]]]:
        reads: dict[Occurrence, list[tuple[Occurrence, Place]]] = {}
        for value in self._in_memory:
            for producer, consumer in instances(self.draft.dataflow, value, self.trips):
                reads.setdefault(consumer, []).append((producer, self._place(producer, value)))
        return reads

    @cached_property
    def _in_memory(self) -> list[Value]:
        placed = {placement.buffer for placement in self.draft.placements}
        return [value for value in self.draft.dataflow.values if value.buffer in placed]

    @cached_property
    def _slots(self) -> dict[tuple[str, str | None, Occurrence | int], int]:
        """Slot by producer, buffer, and its run; for channels used once a tile by steps, by tile."""
        slots: dict[tuple[str, str | None, Occurrence | int], int] = {}
        for channel in self.draft.channels:
            for use in uses(self.draft.dataflow, self.draft.roles, channel, self.trips):
                key = use.signal.tile if channel.once_a_tile else use.signal
                slots.setdefault((channel.producer, channel.buffer, key), use.n % channel.depth)
        return slots

    @cached_property
    def _depths(self) -> dict[str, int]:
        return {channel.buffer: channel.depth for channel in self.draft.channels if channel.buffer}

    def _place(self, writer: Occurrence, value: Value) -> Place:
        """Where a run leaves a value: in the slot of its channel's use, among the copies of its query tile."""
        placement = self.draft.placement(str(value.buffer))
        found = [self._slots.get((value.producer, value.buffer, key)) for key in (writer, writer.tile)]
        slot = next((at for at in found if at is not None), 0)
        query_tile = self.draft.dataflow.operation(value.producer).query_tile or 0
        depth = self._depths.get(placement.buffer, 1)
        if placement.depth >= depth * self.draft.dataflow.lanes:
            slot += query_tile * depth
        start = placement.start(slot)
        first, last = value.part or (0, placement.size)
        return Place(placement.space, start + first, start + last)


def instances(dataflow: Dataflow, value: Value, trips: Sequence[int]) -> Iterator[tuple[Occurrence, Occurrence]]:
    """Runs of an edge's ends that belong together in a sequence of tiles; of ends that open tiles, in those that have steps.

    Data of an earlier step come from the same tile; an edge without data counts steps for the life of the CTA, but never goes
    back beyond the last step of the tile before, nor forward beyond the tile's own.
    """
    rates = dataflow.operation(value.producer).rate, dataflow.operation(value.consumer).rate
    tile_of = [tile for tile, count in enumerate(trips) for _ in range(count)]
    first = 0
    for tile, count in enumerate(trips):
        steps = range(first, first + count)
        if rates == ("step", "step"):
            for step in steps:
                earlier = step - value.distance if value.buffer else max(step - value.distance, min(step, first - 1))
                if (first if value.buffer else 0) <= earlier < first + count:
                    yield Occurrence(value.producer, tile_of[earlier], earlier), Occurrence(value.consumer, tile, step)
        elif rates == ("tile", "step"):
            yield from ((Occurrence(value.producer, tile), Occurrence(value.consumer, tile, step)) for step in steps)
        elif rates == ("step", "tile") and count:
            yield Occurrence(value.producer, tile, steps[-1]), Occurrence(value.consumer, tile)
        elif rates == ("tile", "tile"):
            ends = Occurrence(value.producer, tile - value.distance), Occurrence(value.consumer, tile)
            if ends[0].tile >= 0 and all(trips[end.tile] or not dataflow.opens_tile(end.operation) for end in ends):
                yield ends
        first += count
