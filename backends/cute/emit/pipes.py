"""The pipe table: a line for each channel of the schedule."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnspec.backends.source import Source
from attnspec.lowering.dataflow.graph import Dataflow, Operation
from attnspec.lowering.schedule.schedule import Channel, Schedule
from attnspec.lowering.schedule.seldom import is_seldom


@dataclass(frozen=True)
class PipeLine:
    """A channel, or one for each lane where they differ in nothing else; `full` and `empty` are barrier indices."""

    channel: Channel
    name: str
    produce: str
    wait: str
    release: str
    full: int
    empty: int | None
    full_fence: str
    empty_fence: str


def pipe_lines(schedule: Schedule) -> tuple[PipeLine, ...]:
    """The table's lines in the order of the schedule, barriers numbered as they come."""
    barriers = _Barriers()
    return tuple(_line(schedule, group, barriers) for group in _groups(schedule))


def barrier_count(schedule: Schedule) -> int:
    """Barriers that a schedule's rings need: full and, where not implied, empty ones."""
    rings = {channel.ring: channel for channel in schedule.channels}
    return sum(channel.depth * (1 if channel.empty is None else 2) for channel in rings.values())


def write_pipes(source: Source, schedule: Schedule) -> None:
    """`PIPES = (...)`."""
    source.comment("What one operation hands to another: a line an edge of the schedule.")
    with source.block("PIPES = ("):
        for line in pipe_lines(schedule):
            source.line(f"Pipe({_arguments(line, schedule.dataflow)}),")
    source.line(")")


def _arguments(line: PipeLine, dataflow: Dataflow) -> str:
    channel, uses, ctas = line.channel, line.channel.uses, dataflow.ctas
    empty = channel.empty
    parts = [
        repr(line.name),
        f"produce={line.produce!r}",
        f"wait={line.wait!r}",
        f"release={line.release!r}",
        f"full={line.full}",
        f"empty={line.empty}",
        f"depth={channel.depth}",
        f"uses=({uses.steps}, {uses.tiles}, {uses.offset})",
        f"full_by={channel.full.engine!r}",
        f"full_count={channel.full.count}",
    ]
    if empty is not None:
        parts += [f"empty_by={empty.engine!r}", f"empty_count={empty.count}"]
    if channel.full.bytes:
        parts.append(f"bytes={channel.full.bytes // (ctas if channel.full.at == 'leader' else 1)}")
    for end, arrivals in (("full", channel.full), ("empty", empty)):
        if arrivals is not None and arrivals.at != "own":
            parts.append(f"{end}_at={arrivals.at!r}")
    parts += [
        f"{name}={value!r}" for name, value in (("full_fence", line.full_fence), ("empty_fence", line.empty_fence)) if value
    ]
    if channel.once_a_tile:
        parts.append("once=True")
    if channel.distance:
        parts.append(f"distance={channel.distance}")
    if is_seldom(dataflow, channel):
        parts.append("seldom=True")
    return ", ".join(parts)


def _groups(schedule: Schedule) -> list[list[Channel]]:
    """Channels that differ only in their lane (query tile, or key tile of a step), together; the others alone."""
    groups: dict[object, list[Channel]] = {}
    for channel in schedule.channels:
        key = _without_tile(schedule, channel)
        groups.setdefault(channel.name if key is None else key, []).append(channel)
    found: list[list[Channel]] = []
    for group in groups.values():
        found += [group] if len(group) in (1, schedule.dataflow.lanes) else [[channel] for channel in group]
    return found


def _without_tile(schedule: Schedule, channel: Channel) -> object | None:
    """A channel with its query tile taken out, or None if it has none, or touches two."""
    operations = [schedule.dataflow.operation(name) for name in (channel.producer, *channel.consumers)]
    tiles = {operation.query_tile for operation in operations}
    if len(tiles) != 1 or tiles == {None}:
        return None
    mark = f"[{tiles.pop()}]"
    if not channel.ring.endswith(mark):
        return None
    kinds = tuple(operation.kind for operation in operations)
    name = channel.name.removesuffix(mark)
    return name, channel.ring.removesuffix(mark), kinds, channel.depth, channel.uses, channel.full, channel.empty


class _Barriers:
    """Barrier indices by ring, given out in order."""

    def __init__(self) -> None:
        self.next = 0
        self.rings: dict[str, tuple[int, int | None]] = {}

    def place(self, group: Sequence[Channel]) -> tuple[int, int | None]:
        first = group[0]
        if first.ring not in self.rings:
            count = first.depth * len(group)
            full, self.next = self.next, self.next + count
            empty = None
            if first.empty is not None:
                empty, self.next = self.next, self.next + count
            for at, channel in enumerate(group):
                ahead = at * first.depth
                self.rings[channel.ring] = (full + ahead, None if empty is None else empty + ahead)
        return self.rings[first.ring]


def _line(schedule: Schedule, group: list[Channel], barriers: _Barriers) -> PipeLine:
    channel = group[0]
    full, empty = barriers.place(group)
    names = [channel.producer, channel.consumers[0], channel.consumers[-1]]
    if len(group) > 1:
        names = [f"{schedule.dataflow.operation(name).kind}[*]" for name in names]
    name = channel.name if len(group) == 1 else channel.name.rsplit("[", 1)[0]
    producer, first, last = names
    fences = (_full_fence(schedule.dataflow, channel), _empty_fence(schedule.dataflow, channel))
    return PipeLine(channel, name, producer, first, last, full, empty, *fences)


def _full_fence(dataflow: Dataflow, channel: Channel) -> str:
    """What stands between the producer's write and the consumer's read (rows of the library's fence table).

    Warps that go on to tensor memory need fences whatever the channel carries: it may also be the one that passes on what a
    commit said of the tensor core's results there (`scale` does for O).
    """
    consumer = dataflow.operation(channel.consumers[0])
    carried = _carried_fence(dataflow, channel, consumer)
    by_threads = channel.full.engine == consumer.engine == "threads"
    return carried or ("tensor_order" if by_threads and _is_in_tensor(dataflow, consumer) else "")


def _carried_fence(dataflow: Dataflow, channel: Channel, consumer: Operation) -> str:
    if channel.full.engine == "tensor":
        return "tensor_result" if consumer.engine == "threads" else ""
    if channel.buffer is None:  # order alone: what the producer has read of tensor memory may be overwritten
        return "tensor_load" if channel.full.engine == "threads" and _reads_tensor(dataflow, channel.producer) else ""
    if channel.full.engine == "tma":
        return ""
    space = dataflow.buffer(channel.buffer).space
    if space == "tensor":
        return "tensor_store"
    if space != "shared" or consumer.engine == "threads":
        return ""
    spreads = any(
        value.spreads for value in dataflow.values if (value.producer, value.buffer) == (channel.producer, channel.buffer)
    )
    return "cluster_async" if spreads else "shared_async"


def _is_in_tensor(dataflow: Dataflow, operation: Operation) -> bool:
    """Whether an operation reads or writes tensor memory."""
    touched = {value.buffer for value in dataflow.values if operation.name in (value.producer, value.consumer)}
    return any(buffer.space == "tensor" for buffer in dataflow.buffers if buffer.name in touched)


def _reads_tensor(dataflow: Dataflow, name: str) -> bool:
    read = {value.buffer for value in dataflow.values if value.consumer == name}
    return any(buffer.space == "tensor" for buffer in dataflow.buffers if buffer.name in read)


def _empty_fence(dataflow: Dataflow, channel: Channel) -> str:
    """What stands between the consumer's read and the producer's next write."""
    if channel.empty is None or channel.empty.engine != "threads" or channel.buffer is None:
        return ""
    reader = dataflow.operation(channel.consumers[-1])
    return "tensor_load" if reader.engine == "threads" and dataflow.buffer(channel.buffer).space == "tensor" else ""
