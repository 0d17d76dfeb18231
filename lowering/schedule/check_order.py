"""Order: on every boundary of tiles that can happen, values are there when they are read and stay until they have been."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import networkx as nx
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.accesses import Accesses, Place, instances
from attnspec.lowering.schedule.order import BEGIN, DONE, ISSUE, SIGNAL, Order
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.seldom import is_seldom, left_out
from attnspec.lowering.schedule.unroll import Occurrence, Use

# Steps of the first tiles of a CTA: what waits for earlier uses of a ring give for nothing later on is not there yet, nor is it
# where the CTA begins again after a barrier of all its warps. Fewer steps wait for less.
BEGINNINGS = ((1, 1, 1), (1, 0, 1), (1, 2), (2, 1))


def windows(most: int) -> tuple[int, ...]:
    """Steps of a sequence of tiles that holds every two tiles of 0 .. most steps in a row, and with an empty one between."""
    adjacent = _every_pair(range(most + 1))
    apart = [count for filled in _every_pair(range(1, most + 1)) for count in (filled, 0)]
    return (*adjacent, *apart)


def _every_pair(counts: Sequence[int]) -> list[int]:
    """A sequence in which each two of the counts follow one another somewhere."""
    pairs = nx.DiGraph((one, other) for one in counts for other in counts)
    return [counts[0], *(other for _, other in nx.eulerian_circuit(pairs, counts[0]))]


def check_order(draft: Draft, trips: Sequence[int]) -> tuple[str, ...]:
    """Raise ScheduleError unless the order of events protects every value; return what had to be assumed for that.

    In that sequence of tiles: no deadlock; every edge ordered; every reuse of a slot, and of any byte or column however it
    is shared, after its last reader; no wait that a barrier could pass by (parity); implied reuse really implied.
    """
    order = Order(draft.dataflow, draft.roles, draft.channels, trips)
    order.check_live()
    _check_values(draft, order, trips)
    _check_reuse(order)
    _check_parity(order)
    accesses = Accesses(draft, tuple(trips))
    for conflict in _conflicts(order, accesses, order):
        raise ScheduleError(conflict.name, conflict.text)
    never = left_out(draft)
    if never is not None:
        _check_left_out(draft, never, trips)
    return _assumptions(draft, order, accesses, trips)


def _check_left_out(draft: Draft, never: Draft, trips: Sequence[int]) -> None:
    """The same where seldom waits are never taken; and a phase that nobody waited for is over before the next wait."""
    order = Order(never.dataflow, never.roles, never.channels, trips)
    order.check_live()
    _check_values(never, order, trips)
    _check_reuse(order)
    for conflict in _conflicts(order, Accesses(never, tuple(trips)), order):
        raise ScheduleError(conflict.name, conflict.text)
    seldom = [channel.name for channel in draft.channels if is_seldom(draft.dataflow, channel)]
    whole = Order(draft.dataflow, draft.roles, draft.channels, trips, left_out=seldom)
    _check_reuse(whole)
    for ring in whole.rings().values():
        for n, use in ring.items():
            following = ring.get(n + use.channel.depth)
            if use.channel.name in seldom and following is not None:
                _check_passed(whole, [use], following)


def check_acyclic(dataflow: Dataflow) -> None:
    """Raise ScheduleError if operations of one step wait for each other in the graph itself."""
    step = nx.DiGraph((value.producer, value.consumer) for value in dataflow.values if value.distance == 0)
    if not nx.is_directed_acyclic_graph(step):
        names = ", ".join(before for before, _ in nx.find_cycle(step))
        raise ScheduleError("cycle", f"operations of one step wait for each other: {names}")


def _check_values(draft: Draft, order: Order, trips: Sequence[int]) -> None:
    for value in draft.dataflow.values:
        for producer, consumer in instances(draft.dataflow, value, trips):
            if producer != consumer and not order.precedes(order.at(producer, DONE), order.at(consumer, BEGIN)):
                reason = f"{consumer} reads what {producer} writes, and no path of hand-overs leads there"
                raise ScheduleError("edge-without-channel", reason)


def _check_reuse(order: Order) -> None:
    """Slots whose empty barrier is left out: the writer must come after the last reader all the same."""
    for use, (before, after) in order.reuse_edges(lambda channel: channel.empty is None and channel.buffer is not None):
        if not order.precedes(before, after):
            ends = f"{order.describe(after)} is not after {order.describe(before)}"
            raise ScheduleError("not-implied", f"{use.channel.name} has no empty barrier, but {ends}")


def _check_parity(order: Order) -> None:
    """A barrier shows one bit: whoever waits for a phase must be through before the phase after it can end."""
    rings = order.rings()
    for name, ring in rings.items():
        for n, use in ring.items():
            following = ring.get(n + use.channel.depth)
            if following is None:
                continue
            if use.wait is None:
                others = [uses[n] for other, uses in rings.items() if other.partition("@")[0] == name.partition("@")[0]]
                _check_passed(order, others, following)
            for waits in (use.wait, use.again):
                if waits and not order.precedes(order.at(waits, ISSUE), order.at(following.signal, SIGNAL)):
                    reason = f"{following.signal} can signal {use.channel.name} again before {waits} has seen use {n}"
                    raise ScheduleError("parity", reason)


def _check_passed(order: Order, unseen: Sequence[Use], following: Use) -> None:
    """A phase that nobody waits for must be over before signals of the next one come, and before somebody waits for that.

    unseen: the uses that complete it, of each CTA of a pair.
    """
    for use in unseen:
        before, after = order.at(use.signal, SIGNAL), order.at(following.signal, SIGNAL)
        waits = following.wait and order.at(following.wait, ISSUE)
        known = [link.before for link in order.incoming[waits] if link.channel != use.channel.name] if waits else [before]
        if not order.precedes(before, after) and before != after:
            raise ScheduleError("parity", f"{following.signal} can signal {use.channel.name} before {use.signal} has")
        if not any(before == node or order.precedes(before, node) for node in known):
            reason = f"{following.wait} can take the phase of {use.signal} on {use.channel.name} for its own"
            raise ScheduleError("parity", reason)


@dataclass
class _Unit:
    """Bytes or columns that every access takes whole: last writer, and readers since."""

    writer: Occurrence | None = None
    readers: list[Occurrence] = field(default_factory=list)


@dataclass(frozen=True)
class _Conflict:
    name: str
    before: Occurrence
    after: Occurrence
    place: Place
    text: str


def _conflicts(order: Order, accesses: Accesses, judge: Order) -> Iterator[_Conflict]:
    """Accesses of one place that `judge` does not order although one writes, walking them as `order` has them."""
    runs = sorted(order.occurrences, key=lambda run: order.ancestors[order.at(run, BEGIN)].bit_count())
    units = _units(accesses, runs)
    for run in runs:
        for writer, place in accesses.reads(run):
            for unit in units[place]:
                if unit.writer != writer:
                    text = f"{run} wants the value of {writer}, but finds that of {unit.writer} in {place}"
                    yield _Conflict("overwritten", writer, run, place, text)
                elif not judge.precedes(judge.at(writer, DONE), judge.at(run, BEGIN)):
                    yield _Conflict("unordered", writer, run, place, f"{run} reads {place} while {writer} may still write it")
                unit.readers.append(run)
        for place in accesses.writes(run):
            for unit in units[place]:
                for before in {unit.writer, *unit.readers} - {None, run}:
                    if before is not None and not judge.precedes(judge.at(before, DONE), judge.at(run, BEGIN)):
                        yield _Conflict("unordered", before, run, place, f"{run} writes {place} that {before} may still use")
                unit.writer, unit.readers = run, []


def _units(accesses: Accesses, runs: Sequence[Occurrence]) -> dict[Place, list[_Unit]]:
    """Places cut at the ends of all others."""
    places = {place for run in runs for place in (*accesses.writes(run), *(place for _, place in accesses.reads(run)))}
    cuts = {
        space: sorted({end for p in places if p.space == space for end in (p.first, p.last)}) for space in ("shared", "tensor")
    }
    units = {(space, cut): _Unit() for space, ends in cuts.items() for cut in ends}
    return {place: [units[place.space, cut] for cut in cuts[place.space] if place.first <= cut < place.last] for place in places}


def _assumptions(draft: Draft, order: Order, accesses: Accesses, trips: Sequence[int]) -> tuple[str, ...]:
    """Conflicts that only the order of the tensor pipe prevents, one sentence a pair of operations."""
    strict = Order(draft.dataflow, draft.roles, draft.channels, trips, pipe=False)
    pairs = {(conflict.before.operation, conflict.after.operation) for conflict in _conflicts(order, accesses, strict)}
    return tuple(
        f"{before} is through with its operands before {after}, issued later by the same warp, writes over them"
        for before, after in sorted(pairs)
    )
