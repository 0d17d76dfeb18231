"""Programs and channels written out for a sequence of work tiles: what every role does, in its order, and which use is whose.

This is the meaning of a schedule. A role runs a tile of N steps as trips 0 .. N - 1 + (its largest stage); at trip t it runs
operation v for step t - stage(v) if the tile has that step. Operations that open a tile run where they stand in the first trip,
in tiles that have steps; those that close a tile run after its last trip, in every tile. A role that rolls runs its trips over
the steps of all tiles at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Channel, Role


@dataclass(frozen=True)
class Occurrence:
    """One run of an operation. step: counted for the life of the CTA; None for an operation of the tile."""

    operation: str
    tile: int
    step: int | None = None

    def __str__(self) -> str:
        return f"{self.operation}(tile {self.tile})" if self.step is None else f"{self.operation}({self.step})"


@dataclass(frozen=True)
class Use:
    """Use n of a ring: who waits for the slot and who fills it, who waits for the value and who reads it last.

    Uses that nobody waits for (see `reader_of`) have no `wait` and no `release`. again: who waits for a use once more.
    """

    n: int
    channel: Channel
    acquire: Occurrence
    signal: Occurrence
    wait: Occurrence | None
    release: Occurrence | None
    again: Occurrence | None = None


def unroll(dataflow: Dataflow, role: Role, trips: Sequence[int]) -> Iterator[Occurrence]:
    """What a role does for tiles of so many steps, in order."""
    lag = max((step.stage for step in role.program), default=0)
    if role.rolls:
        yield from _rolled(role, trips, lag)
        return
    first = 0
    for tile, count in enumerate(trips):
        for trip in range(count + lag if count else 0):
            yield from _trip(dataflow, role, tile, first, count, trip)
        for step in role.program:
            if dataflow.operation(step.operation).rate == "tile" and not dataflow.opens_tile(step.operation):
                yield Occurrence(step.operation, tile)
        first += count


def _rolled(role: Role, trips: Sequence[int], lag: int) -> Iterator[Occurrence]:
    """Trips over the steps of all tiles as if they were one; such a role has no operations of the tile."""
    tile_of = [tile for tile, count in enumerate(trips) for _ in range(count)]
    for trip in range(len(tile_of) + lag if tile_of else 0):
        for step in role.program:
            at = trip - step.stage
            if 0 <= at < len(tile_of):
                yield Occurrence(step.operation, tile_of[at], at)


def _trip(dataflow: Dataflow, role: Role, tile: int, first: int, count: int, trip: int) -> Iterator[Occurrence]:
    for step in role.program:
        operation, at = dataflow.operation(step.operation), trip - step.stage
        if operation.rate == "step" and 0 <= at < count:
            yield Occurrence(operation.name, tile, first + at)
        elif operation.rate == "tile" and at == 0 and dataflow.opens_tile(operation.name):
            yield Occurrence(operation.name, tile)


def first_writer(dataflow: Dataflow, roles: Sequence[Role], channel: Channel) -> str:
    """The operation that waits for a channel's slot: the first of the producer's role that writes that place in a tile."""
    producer = dataflow.operation(channel.producer)
    if not channel.once_a_tile or producer.rate == "tile" or channel.buffer is None:
        return channel.producer
    values = [value for value in dataflow.values if value.buffer == channel.buffer]
    writers = {value.producer for value in values}
    role = next(role for role in roles if any(step.operation == channel.producer for step in role.program))
    here = [step for step in role.program if step.operation in writers]
    if not any(_crosses_lanes(dataflow, value) for value in values):  # else there is one place for all lanes
        here = [step for step in here if dataflow.operation(step.operation).query_tile == producer.query_tile]
    return min(here, key=lambda step: step.stage).operation


def _crosses_lanes(dataflow: Dataflow, value: Value) -> bool:
    lanes = {dataflow.operation(end).query_tile for end in (value.producer, value.consumer)} - {None}
    return len(lanes) > 1


def uses(dataflow: Dataflow, roles: Sequence[Role], channel: Channel, trips: Sequence[int]) -> Iterator[Use]:
    """The uses of a channel in a sequence of tiles. Raises ScheduleError if its ends do not happen equally often."""
    ends = (channel.producer, channel.consumers[0], channel.consumers[-1])
    rates = [dataflow.operation(name).rate for name in ends]
    opens = rates == ["tile"] * 3 and dataflow.opens_tile(channel.producer)
    if rates == ["step"] * 3 and not channel.once_a_tile:
        yield from _every_step(channel, trips)
    elif rates == ["tile"] * 3 and not channel.once_a_tile and not opens:
        yield from _every_tile(channel, trips)
    elif channel.once_a_tile and rates[1] == rates[2] and (rates[0] != rates[1] or opens):
        yield from _once_a_tile(dataflow, first_writer(dataflow, roles, channel), channel, trips)
    else:
        rule = "once a tile" if channel.once_a_tile else "at every use of its ends"
        raise ScheduleError(
            "uneven-uses", f"channel {channel.name} is used {rule}, but {' and '.join(ends[:2])} do not so happen"
        )


def reader_of(tile_of: Sequence[int], step: int, distance: int) -> int | None:
    """The step that waits first for what another left in `step`, or None. tile_of: of each step.

    One that is more than a step late is so inside a tile: the first step of a tile waits for all of the tile before. What comes
    early is waited for inside a tile alone.
    """
    is_last = step + 1 == len(tile_of) or tile_of[step + 1] != tile_of[step]
    at = step + (min(distance, 1) if is_last else distance)
    if not 0 <= at < len(tile_of):
        return None
    return at if distance in (0, 1) or (is_last and distance > 1) or tile_of[at] == tile_of[step] else None


def _every_step(channel: Channel, trips: Sequence[int]) -> Iterator[Use]:
    tile_of = [tile for tile, count in enumerate(trips) for _ in range(count)]
    for step, tile in enumerate(tile_of):
        own = Occurrence(channel.producer, tile, step)
        read = reader_of(tile_of, step, channel.distance)
        if read is None:
            yield Use(_number(channel, step, tile), channel, own, own, None, None)
            continue
        ends = [Occurrence(name, tile_of[read], read) for name in channel.consumers]
        later, again = step + channel.distance, None
        if read != later and later < len(tile_of) and tile_of[later] == tile_of[read]:
            again = Occurrence(channel.consumers[0], tile_of[later], later)
        yield Use(_number(channel, step, tile), channel, own, own, ends[0], ends[-1], again)


def _every_tile(channel: Channel, trips: Sequence[int]) -> Iterator[Use]:
    for tile in range(len(trips)):
        own = Occurrence(channel.producer, tile)
        ends = [Occurrence(name, tile) for name in channel.consumers]
        yield Use(_number(channel, sum(trips[: tile + 1]), tile), channel, own, own, ends[0], ends[-1])


def _once_a_tile(dataflow: Dataflow, writer: str, channel: Channel, trips: Sequence[int]) -> Iterator[Use]:
    step_produces, step_consumes = (dataflow.operation(name).rate == "step" for name in (channel.producer, channel.consumers[0]))
    used = 0
    for tile, count in enumerate(trips):
        if not count:
            continue
        first = sum(trips[:tile])
        last = first + count - 1
        if step_produces:
            acquire, signal = Occurrence(writer, tile, first), Occurrence(channel.producer, tile, last)
        else:
            acquire = signal = Occurrence(channel.producer, tile)
        begin, end = (first, last) if step_consumes else (None, None)
        wait, release = Occurrence(channel.consumers[0], tile, begin), Occurrence(channel.consumers[-1], tile, end)
        yield Use(_number(channel, first, used), channel, acquire, signal, wait, release)
        used += 1


def _number(channel: Channel, step: int, tile: int) -> int:
    return channel.uses.steps * step + channel.uses.tiles * tile + channel.uses.offset
