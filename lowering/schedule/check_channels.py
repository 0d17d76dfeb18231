"""Channels: each an edge of the graph, with the arrivals its ends give, and rings whose uses follow one another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from attnspec.lowering.dataflow.graph import Value
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Arrivals, Channel, Draft
from attnspec.lowering.schedule.unroll import uses


def check_channels(draft: Draft, trips: Sequence[int]) -> None:
    """Raise ScheduleError unless each channel carries an edge, counts right at both ends, and shares its ring rightly."""
    twice = [name for name, count in Counter(channel.name for channel in draft.channels).items() if count > 1]
    if twice:
        raise ScheduleError("channel-twice", f"two channels are called {twice[0]}")
    for channel in draft.channels:
        _check_ends(draft, channel)
        _check_distance(draft, channel)
        _check_values(draft, channel)
        _check_full(draft, channel)
        _check_empty(draft, channel)
    rings: dict[str, list[Channel]] = {}
    for channel in draft.channels:
        rings.setdefault(channel.ring, []).append(channel)
    for name, ring in rings.items():
        _check_ring(draft, name, ring, trips)


def _check_ends(draft: Draft, channel: Channel) -> None:
    known = {operation.name for operation in draft.dataflow.operations}
    unknown = [name for name in (channel.producer, *channel.consumers) if name not in known]
    if unknown or not channel.consumers:
        raise ScheduleError("channel-ends", f"{channel.name} leads from or to {', '.join(unknown) or 'nothing'}")
    readers = {draft.role_of(name).name for name in channel.consumers}
    if len(readers) > 1:
        raise ScheduleError("channel-ends", f"consumers of {channel.name} are in several roles: {', '.join(sorted(readers))}")
    program = draft.role_of(channel.consumers[0]).program
    order = [step.operation for step in sorted(program, key=lambda step: step.stage)]
    places = [order.index(name) for name in channel.consumers]
    if places != sorted(set(places)):
        raise ScheduleError("consumer-order", f"consumers of {channel.name} are not in the order of their program")


def _check_distance(draft: Draft, channel: Channel) -> None:
    """What waits over more than a step, or ahead, is of a role that knows a tile's first and last trip by its stages.

    Not every use is waited for then, so none is given back.
    """
    if channel.distance in (0, 1):
        return
    consumer = channel.consumers[0]
    stages = {step.operation: step.stage for step in draft.role_of(consumer).program}
    if draft.dataflow.operation(consumer).engine != "tensor" or stages[consumer] != int(channel.distance < 0):
        reason = f"{consumer}, of stage {stages[consumer]}, waits for {channel.name} at a distance of {channel.distance}"
        raise ScheduleError("distance", reason)
    if channel.empty is not None or channel.buffer is not None or set(stages.values()) != {0, 1}:
        raise ScheduleError("distance", f"{channel.name} has a distance of {channel.distance}, and is more than an order")


def _check_values(draft: Draft, channel: Channel) -> None:
    for consumer in channel.consumers:
        if not _carried(draft, channel, consumer):
            edge = f"{channel.producer} -> {consumer}"
            raise ScheduleError("channel-without-edge", f"{channel.name} hands over {edge} at distance {channel.distance}")


def _carried(draft: Draft, channel: Channel, consumer: str) -> list[Value]:
    wanted = (channel.producer, consumer, channel.buffer, channel.distance)
    return [v for v in draft.dataflow.values if (v.producer, v.consumer, v.buffer, v.distance) == wanted]


def _check_full(draft: Draft, channel: Channel) -> None:
    operation = draft.dataflow.operation(channel.producer)
    if operation.engine == "tma":
        value = _carried(draft, channel, channel.consumers[0])[0]
        first, last = value.part or (0, draft.dataflow.buffer(str(value.buffer)).size)
        expected = Arrivals(1, "tma", last - first)
    else:
        expected = Arrivals(_signals(draft, channel.producer), operation.engine)
    _compare("full", channel, channel.full, _in_pair(draft, expected, channel.producer, channel.consumers[0]))


def _check_empty(draft: Draft, channel: Channel) -> None:
    last = channel.consumers[-1]
    by_commit = draft.dataflow.operation(last).engine == "tensor"
    if channel.empty is not None:
        expected = Arrivals(_signals(draft, last), "tensor" if by_commit else "threads")
        _compare("empty", channel, channel.empty, _in_pair(draft, expected, last, channel.producer))
    elif not channel.implied_by:
        raise ScheduleError("implied-by", f"{channel.name} has no empty barrier and does not say what implies it")


def _in_pair(draft: Draft, each: Arrivals, signals: str, waits: str) -> Arrivals:
    """The same where CTAs work together: a joint operation signals in each of them, and what waits for one is the leader's."""
    if draft.dataflow.operation(signals).joint:
        return replace(each, at="each")
    if draft.dataflow.operation(waits).joint:
        return Arrivals(each.count * draft.dataflow.ctas, each.engine, each.bytes * draft.dataflow.ctas, "leader")
    return each


def _signals(draft: Draft, name: str) -> int:
    """Arrivals by one run of an operation: one commit, or an elected lane of each warp of its role."""
    return 1 if draft.dataflow.operation(name).engine == "tensor" else len(draft.role_of(name).warps)


def _compare(end: str, channel: Channel, found: Arrivals, expected: Arrivals) -> None:
    if (found.count, found.engine) != (expected.count, expected.engine):
        text = f"{found.count} by {found.engine}, but gets {expected.count} by {expected.engine}"
        raise ScheduleError("arrivals", f"{end} of {channel.name} waits for {text}")
    if found.at != expected.at:
        raise ScheduleError("barrier-place", f"{end} of {channel.name} is the barrier of {found.at}, should be of {expected.at}")
    if found.bytes != expected.bytes:
        raise ScheduleError("bytes", f"{end} of {channel.name} waits for {found.bytes} bytes, but gets {expected.bytes}")


def _check_ring(draft: Draft, name: str, ring: list[Channel], trips: Sequence[int]) -> None:
    """One set of barriers: one depth, one sort of release, and uses 0, 1, 2, ... each by one channel."""
    first = ring[0]
    if any(channel.depth != first.depth or channel.depth < 1 for channel in ring):
        raise ScheduleError("ring-depth", f"channels of ring {name} have depths {[channel.depth for channel in ring]}")
    if any(channel.empty != first.empty or channel.full.count != first.full.count for channel in ring):
        raise ScheduleError("ring-arrivals", f"channels of ring {name} do not agree on the arrivals of its barriers")
    if any(channel.buffer != first.buffer for channel in ring):
        raise ScheduleError("ring-buffer", f"channels of ring {name} are for different buffers")
    for end in ("producer", "consumer"):
        ends = {draft.role_of(c.producer if end == "producer" else c.consumers[0]).name for c in ring}
        if len(ends) > 1:
            raise ScheduleError("ring-roles", f"ring {name} has {end}s in {', '.join(sorted(ends))}")
    numbers = [use.n for channel in ring for use in uses(draft.dataflow, draft.roles, channel, trips)]
    if sorted(numbers) != list(range(len(numbers))):
        raise ScheduleError("ring-uses", f"uses of ring {name} are not 0, 1, 2, ... each once, in tiles of {trips[:4]} ... steps")
