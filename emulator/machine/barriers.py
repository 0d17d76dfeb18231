"""Barriers: mbarriers in shared memory, named barriers of a CTA, the barrier of a cluster. PTX ISA 9.7.13; FACTS C7."""

from dataclasses import dataclass, field
from typing import Any

from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.shared_memory import RESERVED
from attnspec.emulator.names import Signal

MOST_BYTES = (1 << 20) - 1


@dataclass(eq=False)
class Mbarrier:
    """phase: phases completed so far. pending: arrivals still wanted; bytes: announced and not yet delivered, may be negative.

    announced, delivered: bytes of the phase under way. early: of phases without a break in which bytes came before they were
    announced, the first; it tells where a count that is never made up for went wrong.
    """

    cta: Any
    offset: int
    expected: int
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    waiters: list[Any] = field(default_factory=list)
    announced: int = 0
    delivered: int = 0
    early: int | None = None
    is_early: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.expected < 1 << 20:
            raise KernelFault("barrier-count", f"{self.name} is set up for {self.expected} arrivals: wanted 1 to {(1 << 20) - 1}")
        self.pending = self.expected
        self.observe("initialise", self.cta.machine.actor)

    @property
    def name(self) -> str:
        """How reports name it."""
        name = f"mbarrier +{self.place} of {self.cta.name}"
        return name if self.signal is None else f"{self.signal.name} ({name})"

    @property
    def place(self) -> int:
        """Its byte of dynamic shared memory."""
        return self.offset - RESERVED

    @property
    def signal(self) -> Signal | None:
        """What it stands for, if it has a name."""
        return self.cta.machine.names.barriers.get(self.place)

    def state(self) -> str:
        """All of it, for reports."""
        arrivals = f"{self.pending} of {self.expected} arrivals pending"
        bytes = f"{self.bytes} bytes outstanding"
        if self.announced or self.delivered:
            bytes += f" ({self.announced} announced in this phase, {self.delivered} delivered)"
        return f"phase {self.phase} (parity {self.phase & 1}), {arrivals}, {bytes}"

    def arrive(self, actor: Any, count: int) -> None:
        """`count` arrivals, which release what the actor did."""
        if count > self.pending:
            raise KernelFault("barrier-over-arrival", f"{actor.name} arrives {count} times at {self.name}: {self.state()}")
        self.observe("release", actor)
        self.pending -= count
        self.flip()

    def expect(self, count: int) -> None:
        """Announce bytes."""
        self.bytes += count
        self.announced += count
        self.require_range()

    def complete(self, actor: Any, count: int) -> None:
        """Deliver bytes."""
        self.observe("release", actor)
        self.bytes -= count
        self.delivered += count
        if self.bytes < 0 and not self.is_early:
            self.is_early = True
            self.early = self.phase if self.early is None else self.early
        self.require_range()
        self.flip()

    def require_range(self) -> None:
        """The byte count has 21 bits."""
        if abs(self.bytes) > MOST_BYTES:
            raise KernelFault("barrier-bytes", f"{self.name}: {self.bytes} bytes outstanding, at most {MOST_BYTES} count")

    def flip(self) -> None:
        """The phase ends when nothing is outstanding."""
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected
            self.announced = self.delivered = 0
            if not self.is_early:
                self.early = None
            self.is_early = False
            waiters, self.waiters = self.waiters, []
            for warp in waiters:
                self.cta.machine.scheduler.wake(warp)

    def is_complete(self, parity: int) -> bool:
        """Whether the phase of that parity has completed."""
        return self.phase & 1 != parity

    def unsettled(self) -> str:
        """At the end of the CTA: what is wrong with its count of bytes, or nothing.

        Bytes announced of which none came are no fault where nobody waits for them, as nobody does at the end: the last acquire
        of a producer announces a load that it never makes (flash-attn-4, the tail of Q).
        """
        if not self.bytes or (self.bytes > 0 and not self.delivered):
            return ""
        wrong = f"{abs(self.bytes)} bytes {'announced and not delivered' if self.bytes > 0 else 'delivered and never announced'}"
        since = self.phase if self.early is None or self.bytes > 0 else self.early
        during = "" if self.signal is None else f", {self.signal.during(since)}"
        return f"{self.name}: {wrong}, {'in' if since == self.phase else 'since'} phase {since}{during}; now {self.state()}"

    def observe(self, event: str, actor: Any) -> None:
        """Tell the observer."""
        observer = self.cta.machine.observer
        if observer is not None:
            getattr(observer, event)(actor, self)


@dataclass(eq=False)
class NamedBarrier:
    """One of a CTA's 16. threads: arrived so far; wanted: of this generation, 0 before the first arrival.
    votes: (true, all) lanes of each warp at a reduction; result: their sums when all had come."""

    cta: Any
    number: int
    threads: int = 0
    wanted: int = 0
    generation: int = 0
    waiters: list[Any] = field(default_factory=list)
    votes: dict[Any, tuple[int, int]] = field(default_factory=dict)
    result: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """How reports name it."""
        return f"named barrier {self.number} of {self.cta.name}"

    def state(self) -> str:
        """All of it, for reports."""
        return f"{self.threads} of {self.wanted} threads have arrived"

    def arrive(self, actor: Any, wanted: int) -> None:
        """One warp, counted as 32 threads."""
        if wanted % 32 or wanted == 0:
            raise KernelFault("barrier-count", f"{self.name}: {wanted} threads: wanted a multiple of 32")
        if self.threads and self.wanted != wanted:
            raise KernelFault("barrier-count", f"{self.name}: {actor.name} wants {wanted} threads, those before it {self.wanted}")
        self.wanted = wanted
        self.threads += 32
        if self.cta.machine.observer is not None:
            self.cta.machine.observer.release(actor, self)
        self.flip()

    def flip(self) -> None:
        """Let all go when the last has come."""
        if self.threads and self.threads >= self.wanted:
            self.threads = 0
            self.generation += 1
            self.result = (sum(yes for yes, _ in self.votes.values()), sum(all for _, all in self.votes.values()))
            self.votes.clear()
            waiters, self.waiters = self.waiters, []
            for warp in waiters:
                self.cta.machine.scheduler.wake(warp)


@dataclass(eq=False)
class ClusterBarrier:
    """barrier.cluster: every live warp arrives once a phase; a warp that exits counts as arrived."""

    cluster: Any
    arrived: set[Any] = field(default_factory=set)
    generation: int = 0
    waiters: list[Any] = field(default_factory=list)

    name = "barrier.cluster"

    def state(self) -> str:
        """All of it, for reports."""
        return f"{len(self.arrived)} of {len(self.cluster.live())} warps have arrived"

    def arrive(self, actor: Any) -> None:
        """One warp."""
        if actor in self.arrived:
            raise KernelFault("barrier-over-arrival", f"{actor.name} arrives twice at barrier.cluster in one phase")
        self.arrived.add(actor)
        if self.cluster.machine.observer is not None:
            self.cluster.machine.observer.release(actor, self)
        self.flip()

    def flip(self) -> None:
        """Let all go when every live warp has come."""
        if self.arrived and all(warp in self.arrived for warp in self.cluster.live()):
            self.arrived.clear()
            self.generation += 1
            waiters, self.waiters = self.waiters, []
            for warp in waiters:
                self.cluster.machine.scheduler.wake(warp)
