"""A grid on the machine: memories, clusters, and the run."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.cta import Cluster, Cta
from attnspec.emulator.machine.global_memory import GlobalMemory
from attnspec.emulator.machine.layout import layout_of
from attnspec.emulator.machine.matrix import Multiply, multiply_fast
from attnspec.emulator.machine.scheduler import Scheduler
from attnspec.emulator.machine.tasks import Task, Tasks
from attnspec.emulator.machine.warp import Warp
from attnspec.emulator.names import NO_NAMES, Names
from attnspec.emulator.report import Fault, Site

if TYPE_CHECKING:
    from attnspec.emulator.translate.program import Program

PROCESSORS = 148  # of a B200
MOST_FAULTS = 20
Three = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One launch. parameters: the parameter block; shared_bytes: of dynamic shared memory; registers: of a thread at the start,
    None for all that the number of threads allows."""

    grid: Three
    block: Three
    cluster: Three
    shared_bytes: int
    parameters: bytes
    processors: int = PROCESSORS
    registers: int | None = None

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass
class Machine:
    """checks: names of the checks that are on. names: what reports call things. actor: the warp or task that acts now.
    ended: a fault ended the run."""

    program: "Program"
    launch: Launch
    memory: GlobalMemory
    seed: int | None = None
    checks: frozenset[str] = frozenset()
    observer: Any = None
    multiply: Multiply = multiply_fast
    names: Names = NO_NAMES
    faults: list[Fault] = field(default_factory=list)
    actor: Any = None
    ended: bool = False

    def __post_init__(self) -> None:
        self.random = None if self.seed is None else random.Random(self.seed)
        self.tasks = Tasks(self.random)
        self.scheduler = Scheduler(self, self.random)
        self.counts = [0] * len(self.program.blocks)
        self.layout = layout_of(self.program.kernel, self.launch.shared_bytes)
        self.coming = iter(self.clusters(range(self.cluster_count)))
        self.live: dict[Cluster, int] = {}
        self.cache: dict[Any, Any] = {}

    @property
    def cluster_count(self) -> int:
        """Clusters of the grid."""
        return int(np.prod([grid // step for grid, step in zip(self.launch.grid, self.launch.cluster, strict=True)]))

    def clusters(self, numbers: Iterable[int]) -> Iterator[Cluster]:
        """Some clusters of the grid, numbered x fastest, made when they start."""
        size = self.launch.cluster
        counts = [grid // step for grid, step in zip(self.launch.grid, size, strict=True)]
        for number in numbers:
            z, y, x = np.unravel_index(number, (counts[2], counts[1], counts[0]))
            x, y, z = int(x), int(y), int(z)
            cluster = Cluster(self, number)
            for rank, (dz, dy, dx) in enumerate(np.ndindex(size[2], size[1], size[0])):
                place = (x * size[0] + dx, y * size[1] + dy, z * size[2] + dz)
                cluster.ctas.append(Cta(cluster, place, rank, self.layout))
            yield cluster

    def run(self, numbers: Iterable[int] | None = None) -> None:
        """The whole grid, or some of its clusters; a fault that ends the run is added to `faults`."""
        if numbers is not None:
            self.coming = self.clusters(numbers)
        size = self.launch.cluster[0] * self.launch.cluster[1] * self.launch.cluster[2]
        try:
            with np.errstate(all="ignore"):
                for _ in range(max(1, self.launch.processors // size)):
                    self.start_next()
                self.scheduler.run()
        except KernelFault as fault:
            self.ended = True
            del self.faults[MOST_FAULTS - 1 :]  # there is always room for what ended the run
            self.fault(fault.kind, fault.message, self.actor)

    def start_next(self) -> None:
        """Bring the next cluster onto the machine, if there is one."""
        cluster = next(self.coming, None)
        if cluster is not None:
            warps = [warp for cta in cluster.ctas for warp in cta.warps]
            self.live[cluster] = len(warps)
            for warp in warps:
                self.scheduler.add(warp)

    def take_next(self) -> Three | None:
        """Take away the next cluster that has not started: the place of its first CTA, None if there is none."""
        cluster = next(self.coming, None)
        return None if cluster is None else cluster.ctas[0].place

    def left(self, warp: Warp) -> None:
        """A warp has exited; the last of a cluster makes room for the next one."""
        cluster = warp.cta.cluster
        warp.cta.left(warp)
        if self.observer is not None:
            self.observer.left(warp)
        self.live[cluster] -= 1
        if not self.live[cluster]:
            del self.live[cluster]
            self.start_next()

    def fault(self, kind: str, message: str, actor: Any, other: Site | None = None, at: int | None = None) -> None:
        """Note a fault of a warp or a task. other: what it is against. at: where it is, if not where the actor stands."""
        if actor is None or kind == "deadlock":
            self.add(Fault(kind, message, other=other))
            return
        here = self.site(actor.whole_name if isinstance(actor, Task) else actor.name, actor.at if at is None else at)
        self.add(Fault(kind, message, here.line, here.text, here.agent, here.source, other, here.spec))

    def add(self, fault: Fault) -> None:
        """Keep a fault, if there are not too many."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)

    def site(self, agent: str, at: int) -> Site:
        """An instruction as reports tell of it."""
        found = self.program.kernel.instructions[at]
        return Site(agent, found.line, found.text, self.names.source(found.source), self.names.spec(found.source))
