"""Vector clocks of one cluster: what each agent knows to have happened.

An agent is a warp, a tensor pipe, or one task of an asynchronous unit. Each has a column; its epoch counts what it published. A
clock is an array (4, columns) of the latest epochs known, by how they are known:

* ORDERED: happened before, by the barriers between;
* FENCED: and a `fence.proxy.async` lies between, so that the asynchronous proxy sees generic writes;
* PUBLISHED: and a `tcgen05.fence::before_thread_sync` lies between, or a commit, which implies one;
* TENSOR: and a `tcgen05.fence::after_thread_sync` of this agent follows.

A task takes a column of an earlier one only if its warp knows that one to be complete, so nothing is ordered by that.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

ORDERED, FENCED, PUBLISHED, TENSOR = range(4)
MOST_TASKS = 48  # of a kind, not known to be complete; with more, the oldest passes for complete
Array = Any


@dataclass(eq=False)
class Column:
    """latest: the last epoch given out. issues: of each task's first epoch, who issued it."""

    number: int
    asynchronous: bool
    latest: int = 0
    issues: dict[int, "Issue"] = field(default_factory=dict)


@dataclass(frozen=True)
class Issue:
    """Who issued a task: a warp's column, and the epoch that only those know who heard of the warp after that."""

    column: int
    epoch: int
    name: str


class Agent:
    """published: what the next release says, None if it has to be copied first. foreign: known epochs of other clusters.

    Of a warp whose lanes are told apart, single is the column of what some lanes do while others are off, and common is what
    every lane knows: without what other lanes did, or waited for, since the last bar.warp.sync.
    """

    def __init__(self, crowd: "Crowd", column: Column, name: str, clock: Array) -> None:
        self.crowd = crowd
        self.column = column
        self.name = name
        self.clock = clock
        self.published: Array = None
        self.common: Array = None
        self.single: Column | None = None
        self.pending: dict[str, list[Agent]] = {}
        self.foreign: dict[int, Array] = {}
        self.first = 0
        self.at = 0
        self.snapshot: Array = None
        self.pipe: Agent | None = None
        self.issue: Issue | None = None
        self.limit_cache: dict[int, Array] = {}

    @property
    def epoch(self) -> int:
        """Its own time."""
        return int(self.clock[ORDERED, self.column.number])

    def changed(self) -> None:
        """Its knowledge or its deeds have grown."""
        self.published = None
        self.limit_cache.clear()

    def tick(self) -> None:
        """What it does from now on is not known to those who heard of it until now."""
        self.column.latest = self.epoch + 1
        self.clock[ORDERED, self.column.number] = self.column.latest
        self.limit_cache.clear()

    def split(self) -> None:
        """Tell the lanes of a warp apart."""
        self.single = self.crowd.column(False)
        self.crowd.agents[self.single.number] = self
        self.clock = widened(self.clock, self.crowd.width)
        self.clock[ORDERED, self.single.number] = self.single.latest = 1
        self.common = self.clock.copy()

    def meet(self) -> None:
        """All lanes know what each knows."""
        if self.common is not None:
            self.common = self.clock.copy()
            self.tick()

    def fence(self, to: int, source: int) -> None:
        """What is known as `source` asks is from now on known as `to` asks."""
        np.maximum(self.clock[to], self.clock[source], out=self.clock[to])
        self.changed()
        self.tick()
        if self.common is not None and self.single is not None:
            at = self.single.number
            np.maximum(self.common[to], self.common[source], out=self.common[to])
            self.common[to, at] = self.clock[to, at]
            self.clock[ORDERED, at] = self.single.latest = self.single.latest + 1

    def publish_single(self) -> Array:
        """What lanes publish while others are off."""
        said = self.common.copy()
        assert self.single is not None
        epoch = self.clock[ORDERED, self.single.number]
        said[ORDERED, self.single.number] = epoch
        self.single.latest = self.clock[ORDERED, self.single.number] = epoch + 1
        self.published = None
        self.limit_cache.clear()
        return said

    def publish(self) -> Array:
        """A copy of its clock; time goes on."""
        if self.published is None:
            self.published = self.clock.copy()
            if not self.first:
                self.tick()
        return self.published

    def learn(self, clock: Array, rows: int) -> None:
        """Join another's clock."""
        self.clock = joined(self.clock, clock, rows)
        if self.common is not None:
            self.common = joined(self.common, clock, rows)
        self.changed()

    def knows(self, column: int, epoch: int, row: int = ORDERED) -> bool:
        """Whether an epoch of a column happened before, as `row` asks."""
        return column < self.clock.shape[1] and bool(self.clock[row, column] >= epoch)


@dataclass(eq=False)
class Crowd:
    """The agents of a cluster. columns: all; spare: of tasks, by kind."""

    number: int
    columns: list[Column] = field(default_factory=list)
    agents: dict[int, Agent] = field(default_factory=dict)
    spare: dict[str, list[Column]] = field(default_factory=dict)
    syncs: dict[Any, "Sync"] = field(default_factory=dict)
    width: int = 32
    asynchronous: Array = field(default_factory=lambda: np.zeros(32, np.bool_))

    def column(self, asynchronous: bool) -> Column:
        """A new column."""
        made = Column(len(self.columns), asynchronous)
        self.columns.append(made)
        while len(self.columns) > self.width:
            self.width *= 2
            self.asynchronous = np.concatenate([self.asynchronous, np.zeros_like(self.asynchronous)])
        self.asynchronous[made.number] = asynchronous
        return made

    def settler(self, name: str, asynchronous: bool) -> Agent:
        """A lasting agent: a warp, or a tensor pipe."""
        made = Agent(self, self.column(asynchronous), name, np.zeros((4, self.width), np.int64))
        self.agents[made.column.number] = made
        made.tick()
        return made

    def task(self, issuer: Agent, kind: str, name: str, said: Array, by: Column) -> Agent:
        """An agent for one task, with two epochs, one a step; it knows what its issuer said. by: the issuer's column."""
        spare = self.spare.setdefault(kind, [])
        column = next((one for one in spare if issuer.knows(one.number, one.latest)), None)
        if column is None and len(spare) > MOST_TASKS:
            column = spare[-1]
        if column is None:
            column = self.column(kind == "bulk")
        else:
            spare.remove(column)
        spare.insert(0, column)
        made = Agent(self, column, name, widened(said.copy(), self.width))
        made.first = column.latest + 1
        column.latest = made.first + 1
        made.clock[ORDERED, column.number] = made.first
        issuer.published = None
        column.issues[made.first] = Issue(by.number, by.latest, name)
        return made


@dataclass(eq=False)
class Sync:
    """What was published to a barrier: in the phase under way, and in those that have ended."""

    phase: int
    pending: Array
    complete: Array
    last: Array = None
    foreign: dict[int, Array] = field(default_factory=dict)

    def turn(self, phase: int) -> None:
        """Phases have ended."""
        if phase != self.phase:
            self.complete = joined(self.complete, self.pending, 4)
            self.pending[...] = 0
            self.phase, self.last = phase, None


def widened(clock: Array, width: int) -> Array:
    """A clock with room for more columns."""
    if clock.shape[1] >= width:
        return clock
    result = np.zeros((len(clock), width), np.int64)
    result[:, : clock.shape[1]] = clock
    return result


def joined(clock: Array, other: Array, rows: int) -> Array:
    """The later of each, in place if there is room."""
    width = other.shape[1]
    clock = widened(clock, width)
    part = clock[:rows, :width]
    np.maximum(part, other[:rows], out=part)
    return clock
