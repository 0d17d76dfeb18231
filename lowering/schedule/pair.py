"""A schedule for a pair of CTAs as that of one block with the roles and the memory of both, for proofs that know of no pairs.

Each operation that is not joint is there twice, `name@0` and `name@1`, with buffers of its own; a joint one is there once, and
reads and writes those of both. A barrier of the leader that both CTAs signal becomes a hand-over from each: whoever waits for it
waits for both. A commit that signals in each CTA becomes a hand-over to each. What an operation leaves in the memory of both CTAs
becomes a value in each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from attnspec.lowering.dataflow.graph import Dataflow, Operation, Value
from attnspec.lowering.schedule.prices import Price, Prices
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Arrivals, Channel, Draft, Placement, ProgramStep, Role

ROOM = {"shared": 1 << 24, "tensor": 1 << 9}  # how far apart the memories of the CTAs lie (PTX ISA, shared::cluster addresses)


def both(draft: Draft) -> Draft:
    """The draft of one block that stands for both CTAs; one that is for a single CTA stays as it is.

    Raises ScheduleError where a barrier is not where the ends of its hand-over are.
    """
    if draft.dataflow.ctas == 1:
        return draft
    pair = _Pair(draft, range(draft.dataflow.ctas))
    return replace(
        draft,
        dataflow=pair.dataflow(),
        roles=tuple(role for cta in pair.ctas for role in pair.roles(cta)),
        channels=tuple(pair.channel(channel, cta) for channel in draft.channels for cta in pair.ctas),
        placements=tuple(pair.placement(item, cta) for item in draft.placements for cta in pair.ctas),
        threads=draft.threads * len(pair.ctas),
    )


def prices_of_both(draft: Draft, prices: Prices) -> Prices:
    """Prices by the names that operations have in `both(draft)`; a pair's tensor operations take as long as those of one CTA."""
    if draft.dataflow.ctas == 1:
        return prices
    pair = _Pair(draft, range(draft.dataflow.ctas))

    def twice(rows: tuple[tuple[str, Price], ...]) -> tuple[tuple[str, Price], ...]:
        return tuple({pair.name(name, cta): price for cta in pair.ctas for name, price in rows}.items())

    return replace(prices, operations=twice(prices.operations), of_tile=twice(prices.of_tile))


def names_of_first(draft: Draft) -> Mapping[str, str]:
    """What the operations of the first CTA, and joint ones, are in the graph, by the names that they have in `both(draft)`."""
    names = [operation.name for operation in draft.dataflow.operations]
    pair = _Pair(draft, range(draft.dataflow.ctas))
    return {name if draft.dataflow.ctas == 1 else pair.name(name, 0): name for name in names}


@dataclass(frozen=True)
class _Pair:
    draft: Draft
    ctas: range

    def operation(self, operation: Operation, cta: int) -> Operation:
        """What stands for it, in one CTA."""
        return replace(operation, joint=False) if operation.joint else replace(operation, kind=f"{operation.kind}@{cta}")

    def name(self, name: str, cta: int) -> str:
        """What an operation of one CTA is called."""
        return self.operation(self.draft.dataflow.operation(name), cta).name

    def dataflow(self) -> Dataflow:
        flow = self.draft.dataflow
        operations = dict.fromkeys(self.operation(item, cta) for cta in self.ctas for item in flow.operations)
        buffers = tuple(replace(item, name=f"{item.name}@{cta}") for cta in self.ctas for item in flow.buffers)
        values = tuple(value for cta in self.ctas for item in flow.values for value in self.values(item, cta))
        together = tuple(tuple(self.name(name, cta) for name in group) for cta in self.ctas for group in flow.together)
        return replace(flow, operations=tuple(operations), buffers=buffers, values=values, ctas=1, together=together)

    def values(self, value: Value, cta: int) -> list[Value]:
        """A value in one CTA's memory, or between its operations; between joint ones alone, it is there twice.

        One that spreads is in the memory of both, and so are those of the other CTA, behind it or before it.
        """
        ends = self.name(value.producer, cta), self.name(value.consumer, cta)
        own = replace(value, producer=ends[0], consumer=ends[1], buffer=value.buffer and f"{value.buffer}@{cta}")
        if not value.spreads:
            return [own]
        if value.part is None or self.draft.placement(str(value.buffer)).depth > 1:
            reason = f"{value.producer} leaves a value in both CTAs, but {value.buffer} has no range for it, or several copies"
            raise ScheduleError("spreads", reason)
        first, last = (end + cta * (value.part[1] - value.part[0]) for end in value.part)
        return [replace(own, buffer=f"{value.buffer}@{other}", part=(first, last)) for other in self.ctas]

    def roles(self, cta: int) -> list[Role]:
        """Roles of one CTA; joint operations are the first one's."""
        found, warps = [], self.draft.threads // 32
        for role in self.draft.roles:
            joint = {self.draft.dataflow.operation(step.operation).joint for step in role.program}
            if len(joint) > 1:
                raise ScheduleError("pair-roles", f"{role.name} runs joint operations and such that each CTA runs")
            if joint == {True} and cta:
                continue
            program = tuple(ProgramStep(self.name(step.operation, cta), step.stage) for step in role.program)
            own = tuple(warp + cta * warps for warp in role.warps)
            found.append(replace(role, name=f"{role.name}@{cta}", kind=f"{role.kind}@{cta}", warps=own, program=program))
        return found

    def channel(self, channel: Channel, cta: int) -> Channel:
        """A hand-over in one CTA, or between it and a joint operation."""
        return replace(
            channel,
            name=f"{channel.name}@{cta}",
            ring=f"{channel.ring}@{cta}",
            producer=self.name(channel.producer, cta),
            consumers=tuple(self.name(name, cta) for name in channel.consumers),
            buffer=channel.buffer and f"{channel.buffer}@{cta}",
            full=self.share(channel, channel.full, channel.producer, channel.consumers[0]),
            empty=channel.empty and self.share(channel, channel.empty, channel.consumers[-1], channel.producer),
        )

    def share(self, channel: Channel, arrivals: Arrivals, signals: str, waits: str) -> Arrivals:
        """A CTA's share of what completes a phase."""
        by, to = (self.draft.dataflow.operation(name).joint for name in (signals, waits))
        if arrivals.at != ("each" if by else "leader" if to else "own"):
            raise ScheduleError(
                "barrier-place", f"{signals} signals {arrivals.at} of {channel.name}, where {waits} may not hear it"
            )
        parts = len(self.ctas) if arrivals.at == "leader" else 1
        if arrivals.count % parts or arrivals.bytes % parts:
            raise ScheduleError("arrivals", f"{channel.name} waits for {arrivals.count} arrivals, {parts} CTAs give alike")
        return Arrivals(arrivals.count // parts, arrivals.engine, arrivals.bytes // parts)

    def placement(self, item: Placement, cta: int) -> Placement:
        under = item.overlays and f"{item.overlays}@{cta}"
        return replace(item, buffer=f"{item.buffer}@{cta}", offset=item.offset + cta * ROOM[item.space], overlays=under)
