"""Order through values in memory: atomics, and loads and stores with .acquire, .release or .relaxed. PTX ISA 8 (memory model).

A strong write publishes to its address what its agent did: all of it with .release, else what came before its last fence. A
strong read learns what the address holds: at once with .acquire, else at the agent's next fence. Scopes are not told apart.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.emulator.hazards.clocks import ORDERED, Agent, joined

Clocks = dict[int, Any]  # by cluster
ACQUIRE = frozenset({"acquire", "acq_rel", "sc"})
RELEASE = frozenset({"release", "acq_rel", "sc"})
RELAXED = frozenset({"relaxed", "volatile", "mmio"})


@dataclass(frozen=True)
class Ordering:
    """strong: takes part in order through values, and races with no other such access."""

    strong: bool
    acquires: bool
    releases: bool
    reads: bool


@lru_cache(maxsize=512)
def ordering_of(opcode: str) -> Ordering:
    """Of an instruction; tasks and plain accesses have none."""
    words = opcode.split(".")
    if words[0] not in ("ld", "st", "atom", "red"):
        return Ordering(opcode.startswith("cp.reduce"), False, False, False)
    found = frozenset(words)
    strong = words[0] in ("atom", "red") or bool(found & (ACQUIRE | RELEASE | RELAXED))
    return Ordering(strong, bool(found & ACQUIRE), bool(found & RELEASE), words[0] in ("ld", "atom"))


@dataclass
class Values:
    """What was published to addresses. fenced, seen: of each agent, what came before its fence, and what waits for its next."""

    published: dict[Any, Clocks] = field(default_factory=dict)
    fenced: dict[Agent, Clocks] = field(default_factory=dict)
    seen: dict[Agent, Clocks] = field(default_factory=dict)

    def access(self, agent: Agent, memory: Any, places: Any, write: bool, how: Ordering) -> None:
        """A strong access."""
        for place in np.unique(np.asarray(places)).tolist():
            thing = (id(memory), int(place))
            if how.reads and thing in self.published:
                if how.acquires:
                    learn(agent, self.published[thing])
                else:
                    join(self.seen.setdefault(agent, {}), self.published[thing])
            if write:
                said = everything(agent) if how.releases else self.fenced.get(agent)
                if said is not None:
                    join(self.published.setdefault(thing, {}), said)

    def fence(self, agent: Agent) -> None:
        """fence.acq_rel, fence.sc, membar"""
        if agent in self.seen:
            learn(agent, self.seen.pop(agent))
        self.fenced[agent] = everything(agent)

    def release(self, agent: Agent, thing: Any) -> None:
        """Publish all to a thing that has no phases."""
        join(self.published.setdefault(thing, {}), everything(agent))

    def acquire(self, agent: Agent, thing: Any) -> None:
        """Learn all that was published."""
        learn(agent, self.published.get(thing, {}))


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
