"""Races and missing fences, by vector clocks (`clocks`) and a ledger of who touched each place last (`ledger`).

What is reported happened without order in this run, whatever the numbers came out as. Lanes of a warp are one agent: a race among
them is not seen. The tensor pipe runs in issue order, as the hardware does.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from attnspec.emulator.hazards.clocks import (
    FENCED,
    ORDERED,
    PUBLISHED,
    TENSOR,
    Agent,
    Column,
    Crowd,
    Issue,
    Sync,
    joined,
    widened,
)
from attnspec.emulator.hazards.lanes import Lanes
from attnspec.emulator.hazards.ledger import ATOMIC, SHIFT, GlobalLedger, Ledger
from attnspec.emulator.hazards.memory_order import Values, join, ordering_of, scope_of
from attnspec.emulator.hazards.observer import Observer
from attnspec.emulator.hazards.places import HALVES, UNIT, WORD, SharedPlaces, run_or_array, spread, tensor_places
from attnspec.emulator.hazards.products import Watch, facts_of
from attnspec.emulator.hazards.reports import Reports
from attnspec.emulator.machine.barriers import ClusterBarrier, NamedBarrier
from attnspec.emulator.machine.shared_memory import SharedMemory
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.machine.tensor_memory import COLUMNS, TensorMemory
from attnspec.emulator.machine.warp import Warp


class Detector(Observer):
    """machine: whose actor acts now, and whose checks say whether what PTX asks for and
    the hardware does without is asked for, too."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.tensor_fences = "tensor-fences" in machine.checks
        self.wait_ld = "wait-ld" in machine.checks
        self.warp_sync = "warp-sync" in machine.checks
        self.reports = Reports(machine)
        self.lanes = Lanes(self.reports, self.warp_sync)
        self.crowds: dict[Any, Crowd] = {}
        self.shared: dict[SharedMemory, Ledger] = {}
        self.tensor: dict[TensorMemory, Ledger] = {}
        self.regions: dict[int, GlobalLedger] = {}
        self.values = Values()
        self.pipes: dict[Any, Agent] = {}
        self.made: dict[Any, tuple[Agent, int, set[str]]] = {}
        self.shared_places = SharedPlaces()

    # Agents

    def agent(self, actor: Any) -> Agent:
        """Whose clock an actor has; a task of a pipe starts with what its warp knew."""
        found = actor.agent
        if found is None:
            found = actor.agent = self.crowd(actor).settler(actor.name, False)
            if self.warp_sync and isinstance(actor, Warp):
                found.split()
        if found.pipe is not None:
            if found.snapshot is not None:
                if found.snapshot is not found.pipe.snapshot:
                    found.pipe.learn(found.snapshot, 4)
                    found.pipe.snapshot = found.snapshot
                found.snapshot = None
                found.pipe.tick()
                found.first = found.pipe.epoch
                if found.issue is not None:
                    found.column.issues[found.first] = found.issue
            return found.pipe
        if found.first and isinstance(actor, Task) and actor.done == 1 and found.epoch == found.first:
            found.clock[ORDERED, found.column.number] = found.first + 1
            found.changed()
        return found

    def crowd(self, actor: Any) -> Crowd:
        """The agents of an actor's cluster."""
        cluster = actor.cta.cluster
        if cluster not in self.crowds:
            self.crowds[cluster] = Crowd(cluster.number)
        return self.crowds[cluster]

    def issue(self, warp: Any, task: Task, pipe: Any = None) -> None:
        issuer = self.agent(warp)
        if pipe is None:
            kind = kind_of(self.reports.opcode(task.at))
            task.agent = issuer.crowd.task(issuer, kind, task.whole_name, said(warp, issuer), column_of(warp, issuer))
            task.agent.at = task.at
            if kind in ("tcgen05.ld", "tcgen05.st"):
                issuer.pending.setdefault(kind, []).append(task.agent)
            return
        agent = self.pipes.get(pipe)
        if agent is None:
            agent = self.pipes[pipe] = issuer.crowd.settler(pipe.name, True)
        task.agent = Agent(issuer.crowd, agent.column, task.name, agent.clock)
        task.agent.pipe, task.agent.snapshot = agent, said(warp, issuer)
        by = column_of(warp, issuer)
        task.agent.issue = Issue(by.number, by.latest, task.whole_name)
        issuer.published = None

    def watch(self, warp: Any) -> Any:
        facts = facts_of(self.machine.program)
        return Watch(warp, self.reports, facts) if facts and "hazards" in self.machine.checks else None

    def settled(self, actor: Any, kind: str, tasks: Sequence[Any] = ()) -> None:
        agent = self.agent(actor)
        if kind == "wgmma" and actor.watch is not None:
            actor.watch.waited(actor.block)
        if kind.startswith("tensor"):
            done = agent.pending.pop("tcgen05.st" if kind == "tensor_store" else "tcgen05.ld", [])
            if kind == "tensor_use" and self.wait_ld:
                for one in done:
                    self.reports.used(actor, one)
        else:
            done = [task.agent for task in tasks]
        done = [one for one in done if one is not None and one.first]
        if not done:
            return
        news = np.zeros((4, agent.crowd.width), np.int64)
        for one in done:
            rows = [ORDERED] if one.column.asynchronous else [ORDERED, TENSOR]
            news[rows, one.column.number] = one.first if kind == "bulk_read" or one.pipe is not None else one.first + 1
        if is_single(actor):
            agent.learn(news, 4)
        else:
            agent.clock = joined(agent.clock, news, 4)
            agent.changed()

    # Order

    def release(self, actor: Any, thing: Hashable) -> None:
        agent = self.agent(actor)
        if agent.column.asynchronous and isinstance(actor, Task) and actor.agent.pipe is not None:
            # A commit implies fence::before_thread_sync.
            np.maximum(agent.clock[PUBLISHED], agent.clock[ORDERED], out=agent.clock[PUBLISHED])
        self.require_made(actor, agent, thing)
        sync = self.sync(agent, thing)
        news = said(actor, agent)
        if sync.last is not news:
            sync.pending = joined(sync.pending, news, 4)
            sync.last = news
            join(sync.foreign, agent.foreign)

    def acquire(self, actor: Any, thing: Hashable) -> None:
        agent = self.agent(actor)
        self.require_made(actor, agent, thing)
        sync = self.sync(agent, thing)
        agent.learn(sync.complete, 3)
        join(agent.foreign, sync.foreign)
        if isinstance(thing, NamedBarrier | ClusterBarrier):
            agent.meet()
        if isinstance(actor, Warp):
            actor.meet(actor.mask)

    def sync(self, agent: Agent, thing: Any) -> Sync:
        """What a barrier has heard, up to its present phase."""
        phase = thing.phase if hasattr(thing, "phase") else thing.generation
        found = agent.crowd.syncs.get(thing)
        if found is None:
            nothing = np.zeros((4, agent.crowd.width), np.int64)
            found = agent.crowd.syncs[thing] = Sync(phase, nothing, nothing.copy())
        found.turn(phase)
        return found

    def fence(self, actor: Any, kind: str) -> None:
        agent = self.agent(actor)
        if kind == "memory":
            self.values.fence(agent, actor.cta.rank, scope_of(self.reports.opcode(actor.at)))
        if kind == "warp":
            agent.meet()
        rows = {"proxy": (FENCED, ORDERED), "tensor_before": (PUBLISHED, ORDERED), "tensor_after": (TENSOR, PUBLISHED)}
        if kind in ("proxy", "mbarrier_init"):
            for maker, epoch, seen in self.made.values():
                if maker is agent or agent.knows(maker.column.number, epoch):
                    seen.add("fenced")
        if kind in rows:
            to, source = rows[kind]
            agent.fence(to, source)

    def initialise(self, actor: Any, barrier: Any) -> None:
        if actor is not None:
            agent = self.agent(actor)
            agent.changed()
            self.made[barrier] = (agent, agent.epoch, set())

    def require_made(self, actor: Any, agent: Agent, barrier: Any) -> None:
        """An mbarrier is used after its set-up is visible: by a barrier between warps, by a fence to units and other CTAs."""
        found = self.made.get(barrier)
        if found is None or agent.name in found[2]:
            return
        maker, epoch, seen = found
        seen.add(agent.name)
        if maker is not agent and not agent.knows(maker.column.number, epoch):
            self.reports.barrier("race-barrier", actor, agent, barrier, maker, "nothing orders this after its mbarrier.init")
        elif "fenced" not in seen and (isinstance(actor, Task) or actor.cta is not barrier.cta):
            hint = "no fence.mbarrier_init or fence.proxy.async follows its mbarrier.init"
            self.reports.barrier("missing-init-fence", actor, agent, barrier, maker, hint)

    def left(self, warp: Any) -> None:
        for task in warp.bulk_open + [task for group in warp.bulk_groups for task in group]:
            if task.agent is not None and not self.agent(warp).knows(task.agent.column.number, task.agent.first):
                self.reports.unread(warp, task)
        cluster = warp.cta.cluster
        if all(other.finished for cta in cluster.ctas for other in cta.warps):
            self.crowds.pop(cluster, None)
            for cta in cluster.ctas:
                self.shared.pop(cta.shared, None)
                self.lanes.forget(cta.shared)
                self.tensor.pop(cta.tensor, None)
                self.pipes.pop(cta.tensor_pipe, None)
            self.made = {barrier: found for barrier, found in self.made.items() if barrier.cta.cluster is not cluster}

    # Accesses

    def access(self, actor: Any, memory: Any, write: bool, places: Any, size: int, atomic: bool = False) -> None:
        actor = actor or self.machine.actor
        if not isinstance(memory, TensorMemory) and not np.size(places):
            return
        agent = self.agent(actor)
        how = ordering_of(self.reports.opcode(actor.at))
        if how.strong and how.reads:
            self.values.access(agent, actor.cta.rank, memory, places, False, how)
        agent.published = None
        column = column_of(actor, agent)
        stamp = int(agent.clock[ORDERED, column.number]) << SHIFT | (ATOMIC if atomic or how.strong else 0) | actor.at
        if isinstance(memory, SharedMemory):
            if isinstance(actor, Warp) and not atomic:
                self.lanes.access(actor, memory, write, places, size)
            if memory not in self.shared:
                self.shared[memory] = Ledger(-(-memory.size // WORD))
            self.visit(self.shared[memory], self.shared_places(places, size), actor, agent, memory, write, stamp, column.number)
        elif isinstance(memory, TensorMemory):
            if memory not in self.tensor:
                self.tensor[memory] = Ledger(COLUMNS * HALVES)
            self.visit(self.tensor[memory], tensor_places(*places), actor, agent, memory, write, stamp, column.number)
        else:
            self.visit_global(
                memory, np.asarray(places).ravel().astype(np.int64), size, actor, agent, write, stamp, column.number
            )
        if how.strong and write:
            self.values.access(agent, actor.cta.rank, memory, places, True, how)

    def stored(self, actor: Any, memory: Any, places: Any, values: Any) -> None:
        self.reports.lanes(actor, memory, places, values)

    def visit(
        self, ledger: Ledger, index: Any, actor: Any, agent: Agent, memory: Any, write: bool, stamp: int, column: int
    ) -> None:
        """Check an access against earlier ones, and note it."""
        tensor = isinstance(memory, TensorMemory)
        row = FENCED
        if tensor:
            row = TENSOR if self.tensor_fences and not self.reports.opcode(actor.at).startswith("tcgen05.dealloc") else ORDERED
        strict = self.limits(agent, row)
        found = ledger.unordered_write(index, strict, bool(stamp & ATOMIC))
        if found is not None:
            self.reports.conflict(actor, agent, memory, write, True, found)
        if write:
            found = ledger.unordered_read(index, strict if tensor else self.limits(agent, ORDERED))
            if found is not None:
                self.reports.conflict(actor, agent, memory, write, False, found)
        ledger.note(index, column, stamp, write)

    def limits(self, agent: Agent, row: int) -> Any:
        """The first stamp of each column that the agent may not know. FENCED asks for a fence of generic accesses only, and only
        of the asynchronous proxy; TENSOR of others only."""
        found = agent.limit_cache.get(row)
        crowd = agent.crowd
        if found is None or len(found) < crowd.width:
            agent.clock = widened(agent.clock, crowd.width)
            known = agent.clock[ORDERED]
            if row == FENCED and agent.column.asynchronous:
                known = np.where(crowd.asynchronous, known, agent.clock[FENCED])
            elif row == TENSOR:
                known = agent.clock[TENSOR].copy()
                known[agent.column.number] = agent.epoch
            found = agent.limit_cache[row] = (known + 1) << SHIFT
        return found

    def visit_global(
        self, memory: Any, addresses: Any, size: int, actor: Any, agent: Agent, write: bool, stamp: int, column: int
    ) -> None:
        """The same in global memory, region by region."""
        for region in memory.regions:
            here = addresses[(addresses >= region.start) & (addresses < region.end)]
            if not len(here):
                continue
            if region.start not in self.regions:
                self.regions[region.start] = GlobalLedger(-(-(region.end - region.base) // UNIT))
            ledger = self.regions[region.start]
            index = run_or_array(np.unique(spread(here - region.base, size, UNIT)))
            found = ledger.unordered(index, agent, self.limits(agent, FENCED), write, bool(stamp & ATOMIC))
            if found is not None:
                self.reports.conflict_global(actor, agent, region, write, found, self.crowds)
            ledger.note(index, agent.crowd.number << 24 | column, stamp, write)


def is_single(actor: Any) -> bool:
    """Whether some lanes of a warp act while others are off."""
    return isinstance(actor, Warp) and actor.mask is not None


def column_of(actor: Any, agent: Agent) -> Column:
    """Whose deed it is."""
    return agent.single if agent.single is not None and is_single(actor) else agent.column


def said(actor: Any, agent: Agent) -> Any:
    """What an actor publishes."""
    return agent.publish_single() if agent.single is not None and is_single(actor) else agent.publish()


def kind_of(opcode: str) -> str:
    """Tasks that take each other's columns; `bulk` are those of the asynchronous proxy."""
    if opcode.startswith("tcgen05"):
        return opcode[:10]
    return "bulk" if "bulk" in opcode else "copy"
