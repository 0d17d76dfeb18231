"""Order through values in memory: atomics, and loads and stores with .acquire, .release or .relaxed. PTX ISA 8 (memory model).

A strong write publishes to its address what its agent did: all of it with .release, else what came before its last fence. A
strong read learns what the address holds: at once with .acquire, else at the agent's next fence. Both sides count only if the
scope of each, and of the fences between, includes the other (PTX ISA 8.5, morally strong operations).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from attnspec.emulator.hazards.clocks import ORDERED, Agent, joined

Clocks = dict[int, Any]  # by cluster
ACQUIRE = frozenset({"acquire", "acq_rel", "sc"})
RELEASE = frozenset({"release", "acq_rel", "sc"})
RELAXED = frozenset({"relaxed", "volatile", "mmio"})
CTA, CLUSTER, DEVICE = range(3)  # scopes; one process and one device, so .sys is no wider than .gpu
SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": DEVICE, "gl": DEVICE, "sys": DEVICE}


@dataclass(frozen=True)
class Ordering:
    """strong: takes part in order through values, and races with no other such access."""

    strong: bool
    acquires: bool
    releases: bool
    reads: bool
    scope: int = DEVICE


class Source(NamedTuple):
    """Who published, and how far that reaches."""

    cluster: int
    cta: int
    scope: int

    def reaches(self, cluster: int, cta: int) -> bool:
        """Whether the scope includes an agent; it is symmetric."""
        return self.scope == DEVICE or (self.cluster == cluster and (self.scope == CLUSTER or self.cta == cta))


@lru_cache(maxsize=512)
def ordering_of(opcode: str) -> Ordering:
    """Of an instruction; tasks and plain accesses have none."""
    words = opcode.split(".")
    if words[0] not in ("ld", "st", "atom", "red"):
        return Ordering(opcode.startswith("cp.reduce"), False, False, False)
    found = frozenset(words)
    strong = words[0] in ("atom", "red") or bool(found & (ACQUIRE | RELEASE | RELAXED))
    return Ordering(strong, bool(found & ACQUIRE), bool(found & RELEASE), words[0] in ("ld", "atom"), scope_of(opcode))


@lru_cache(maxsize=512)
def scope_of(opcode: str) -> int:
    """That which an instruction names; what names none (volatile accesses, atomics) has the device's."""
    return next((SCOPES[word] for word in opcode.split(".")[1:] if word in SCOPES), DEVICE)


@dataclass
class Values:
    """What was published to addresses, by source. fenced: of each agent, by scope, what came before its last such fence. seen:
    what waits for its next one.
    """

    published: dict[Any, dict[Source, Clocks]] = field(default_factory=dict)
    fenced: dict[Agent, dict[int, Clocks]] = field(default_factory=dict)
    seen: dict[Agent, dict[Source, Clocks]] = field(default_factory=dict)

    def access(self, agent: Agent, cta: int, memory: Any, places: Any, write: bool, how: Ordering) -> None:
        """A strong access of a warp or task of the CTA of that rank in its cluster."""
        for place in np.unique(np.asarray(places)).tolist():
            thing = (id(memory), int(place))
            if how.reads and thing in self.published:
                self._read(agent, cta, self.published[thing], how)
            if write:
                said = {how.scope: everything(agent)} if how.releases else self.fenced.get(agent, {})
                for scope, clocks in said.items():
                    source = Source(agent.crowd.number, cta, min(scope, how.scope))
                    join(self.published.setdefault(thing, {}).setdefault(source, {}), clocks)

    def _read(self, agent: Agent, cta: int, published: dict[Source, Clocks], how: Ordering) -> None:
        for given, clocks in published.items():
            source = given._replace(scope=min(given.scope, how.scope))
            if not source.reaches(agent.crowd.number, cta):
                continue
            if how.acquires:
                learn(agent, clocks)
            else:
                join(self.seen.setdefault(agent, {}).setdefault(source, {}), clocks)

    def fence(self, agent: Agent, cta: int, scope: int) -> None:
        """fence.acq_rel, fence.sc, membar"""
        waiting = self.seen.get(agent, {})
        for source in list(waiting):
            if source._replace(scope=min(source.scope, scope)).reaches(agent.crowd.number, cta):
                learn(agent, waiting.pop(source))
        self.fenced.setdefault(agent, {})[scope] = everything(agent)


def everything(agent: Agent) -> Clocks:
    """What an agent knows, of all clusters."""
    return {**agent.foreign, agent.crowd.number: agent.publish()}


def join(into: Clocks, other: Clocks) -> None:
    """The later of each."""
    for number, clock in other.items():
        into[number] = joined(into[number], clock, 4) if number in into else clock.copy()


def learn(agent: Agent, clocks: Clocks) -> None:
    """Take what was published into an agent's clock."""
    for number, clock in clocks.items():
        if number == agent.crowd.number:
            agent.learn(clock, 3)
        else:
            join(agent.foreign, {number: clock})


def knows_foreign(agent: Agent, cluster: int, column: int, epoch: int) -> bool:
    """Whether an agent has heard of another cluster's deed."""
    clock = agent.foreign.get(cluster)
    return clock is not None and column < clock.shape[1] and bool(clock[ORDERED, column] >= epoch)
