"""What happens before what when roles and channels run a sequence of work tiles: reachability in the unrolled event graph.

Every occurrence has four moments. ISSUE: its waits are over. BEGIN, DONE: its first effect, its last. SIGNAL: what it signals
has arrived. Warps run an operation as they issue it and go on when they have signalled; an asynchronous one they only issue.
Of operations that are run together the first begins when all are issued, and each signals when the last is done.
A tensor operation's signal is a commit, which waits for all earlier ones of the warp (PTX ISA, tcgen05.commit).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.accesses import instances
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Channel, Role
from attnspec.lowering.schedule.unroll import Occurrence, Use, unroll, uses

ISSUE, BEGIN, DONE, SIGNAL = range(4)


@dataclass(frozen=True)
class Link:
    """An edge of the order graph. channel: name of the channel whose barrier makes it, or "" (program, execution)."""

    before: int
    channel: str = ""


class Order:
    """The order graph of tiles of `trips` steps.

    pipe: also assume that tensor operations of one warp take effect in issue order (not promised by the ISA, except for one
    accumulator). empties: whether waits for free slots count. left_out: channels whose waits for values do not count.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        roles: Sequence[Role],
        channels: Sequence[Channel],
        trips: Sequence[int],
        *,
        pipe: bool = True,
        empties: bool = True,
        left_out: Collection[str] = (),
    ) -> None:
        self.dataflow = dataflow
        self.occurrences: list[Occurrence] = []
        self.number: dict[Occurrence, int] = {}
        self.incoming: list[list[Link]] = []
        self.uses = {channel.name: list(uses(dataflow, roles, channel, trips)) for channel in channels}
        for role in roles:
            self._add_role(list(unroll(dataflow, role, trips)), pipe)
        for value in dataflow.values:
            if value.producer in dataflow.register_products | dataflow.stores:  # their own warps wait for them
                for producer, consumer in instances(dataflow, value, trips):
                    self._link(self.at(producer, DONE), self.at(consumer, ISSUE))
        for full, (before, after) in self.full_edges():
            if full.channel.name not in left_out:
                self._link(before, after, full.channel.name)
        for empty, (before, after) in self.empty_edges() if empties else ():
            self._link(before, after, empty.channel.name)

    def at(self, occurrence: Occurrence, moment: int) -> int:
        """The node of a moment."""
        return 4 * self.number[occurrence] + moment

    def full_edges(self) -> Iterator[tuple[Use, tuple[int, int]]]:
        """Signal of the producer to issue of the consumer, for every use that has one."""
        for numbered in self.uses.values():
            for use in numbered:
                if use.wait is not None:
                    yield use, (self.at(use.signal, SIGNAL), self.at(use.wait, ISSUE))

    def empty_edges(self) -> Iterator[tuple[Use, tuple[int, int]]]:
        """Release of use n of a ring to the wait for use n + depth, for rings with empty barriers; the use is the earlier one."""
        yield from self.reuse_edges(lambda channel: channel.empty is not None)

    def reuse_edges(self, wanted: Callable[[Channel], bool]) -> Iterator[tuple[Use, tuple[int, int]]]:
        """As `empty_edges`, for the channels that `wanted` picks."""
        for ring in self.rings().values():
            for n, use in ring.items():
                following = ring.get(n + use.channel.depth)
                if use.release is not None and following is not None and wanted(use.channel):
                    yield use, (self.at(use.release, SIGNAL), self.at(following.acquire, ISSUE))

    def rings(self) -> dict[str, dict[int, Use]]:
        """Uses by ring and number."""
        rings: dict[str, dict[int, Use]] = {}
        for numbered in self.uses.values():
            for use in numbered:
                rings.setdefault(use.channel.ring, {})[use.n] = use
        return rings

    def check_live(self) -> None:
        """Raise ScheduleError("deadlock") if events wait for each other in a circle."""
        self._topological()

    def precedes(self, before: int, after: int) -> bool:
        """Whether a path leads from one node to another."""
        return bool(self.ancestors[after] >> before & 1)

    def without(self, before: int, after: int) -> bool:
        """Whether a path leads there even without the direct edge."""
        return any(link.before != before and self.precedes(before, link.before) for link in self.incoming[after])

    @cached_property
    def ancestors(self) -> list[int]:
        """For each node, the set of nodes before it, as bits. Raises as `check_live`."""
        found = [0] * len(self.incoming)
        for node in self._topological():
            bits = 0
            for link in self.incoming[node]:
                bits |= found[link.before] | 1 << link.before
            found[node] = bits
        return found

    def path(self, before: int, after: int) -> list[Link] | None:
        """The way there through the fewest channels that is not the direct edge, as links in order."""
        came: dict[int, tuple[Link, int]] = {}
        queue = deque([(after, after, Link(after))])
        while queue:
            node, following, link = queue.popleft()
            if node in came:
                continue
            came[node] = (link, following)
            if node == before:
                return list(_follow(came, before, after))
            for earlier in self.incoming[node]:
                if (earlier.before, node) != (before, after):
                    add = queue.append if earlier.channel else queue.appendleft
                    add((earlier.before, node, earlier))
        return None

    def describe(self, node: int) -> str:
        """`issue of mma_qk[0](3)`."""
        return f"{('issue', 'begin', 'end', 'signal')[node % 4]} of {self.occurrences[node // 4]}"

    def _add_role(self, sequence: list[Occurrence], pipe: bool) -> None:
        before: Occurrence | None = None
        tensor: Occurrence | None = None
        accumulators: dict[tuple[str | None, int | None], Occurrence] = {}
        for occurrence in sequence:
            if occurrence in self.number:
                raise ScheduleError("operation-twice", f"{occurrence} is run twice")
            self.number[occurrence] = len(self.occurrences)
            self.occurrences.append(occurrence)
            base = 4 * self.number[occurrence]
            self.incoming += [[], [Link(base + ISSUE)], [Link(base + BEGIN)], [Link(base + DONE)]]
            operation = self.dataflow.operation(occurrence.operation)
            group = self.dataflow.group_of(operation.name)
            if operation.name != group[0]:
                self._join(group, occurrence)
            elif before is not None:
                blocking = self.dataflow.operation(before.operation).engine == "threads"
                self._link(self.at(before, SIGNAL if blocking else ISSUE), base + ISSUE)
            if operation.engine == "tensor":
                accumulator = (self._writes(operation.name), operation.query_tile)
                earlier = tensor if pipe else accumulators.get(accumulator)
                if earlier is not None:
                    self._link(self.at(earlier, DONE), base + BEGIN)
                if tensor is not None:
                    self._link(self.at(tensor, SIGNAL), base + SIGNAL)
                tensor = accumulators[accumulator] = occurrence
            before = occurrence

    def _join(self, group: tuple[str, ...], occurrence: Occurrence) -> None:
        """One more of operations that are run together. Their program is known to have them in a row."""
        earlier = [Occurrence(name, occurrence.tile, occurrence.step) for name in group[: group.index(occurrence.operation)]]
        self._link(self.at(earlier[-1], ISSUE), self.at(occurrence, ISSUE))
        self._link(self.at(earlier[-1], DONE), self.at(occurrence, BEGIN))
        self._link(self.at(occurrence, ISSUE), self.at(earlier[0], BEGIN))
        for one in earlier:
            self._link(self.at(occurrence, DONE), self.at(one, SIGNAL))
            self._link(self.at(one, SIGNAL), self.at(occurrence, SIGNAL))

    def _writes(self, name: str) -> str | None:
        return next((value.buffer for value in self.dataflow.values if value.producer == name), None)

    def _link(self, before: int, after: int, channel: str = "") -> None:
        self.incoming[after].append(Link(before, channel))

    def _topological(self) -> list[int]:
        left = [len(links) for links in self.incoming]
        outgoing: list[list[int]] = [[] for _ in self.incoming]
        for node, links in enumerate(self.incoming):
            for link in links:
                outgoing[link.before].append(node)
        ready = [node for node, count in enumerate(left) if not count]
        done = []
        while ready:
            node = ready.pop()
            done.append(node)
            for following in outgoing[node]:
                left[following] -= 1
                if not left[following]:
                    ready.append(following)
        if len(done) < len(left):
            raise ScheduleError("deadlock", self._cycle({node for node, count in enumerate(left) if count}))
        return done

    def _cycle(self, stuck: set[int]) -> str:
        """A cycle among nodes that never become ready, in words."""
        node, seen = min(stuck), []
        while node not in seen:
            seen.append(node)
            node = next(link.before for link in self.incoming[node] if link.before in stuck)
        cycle = [at for at in reversed(seen[seen.index(node) :]) if at % 4 == ISSUE]
        return "each waits for the one before it, in a circle: " + ", ".join(self.describe(at) for at in cycle)


def _follow(came: dict[int, tuple[Link, int]], node: int, end: int) -> Iterator[Link]:
    while node != end:
        link, node = came[node]
        yield link
