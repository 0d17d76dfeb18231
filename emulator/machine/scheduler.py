"""Which warp runs next, and when asynchronous work completes."""

from collections import deque
from typing import Any

from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.deadlock import deadlock
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.machine.warp import FINISHED, RUNNING, Warp

BURST = 4096  # blocks a warp runs before another gets its turn, in program order
PRIORITY_SHARE = 0.6  # of seeds
PATIENCE = 16  # turns in a row in which a warp may go on: longer, and it may spin on what one of low priority has yet to do
TIMEOUTS = 3  # times that every waiting warp looks again in vain before they are called stuck


class Scheduler:
    """ready: warps that can run. random: None in program order.

    With a seed there are two policies. Uniform: anyone may be next, and asynchronous units are as eager as the seed says. By
    priority: every warp and task draws a priority and the highest runs, so that one of low priority is as late as the program
    lets it be; warps draw again now and then (Burckhardt et al. 2010, probabilistic concurrency testing). Warps that go on and on
    draw lower and lower, so that whom they wait for runs in the end, be there many of them and be he the last.
    """

    def __init__(self, machine: Any, random: Any) -> None:
        self.machine = machine
        self.random = random
        self.ready: deque[Warp] = deque()
        self.waiting: dict[Warp, None] = {}
        self.vain = 0
        self.burst, self.eagerness, self.by_priority, self.redraw = BURST, 0.5, False, 0.0
        if random is not None:
            self.by_priority = random.random() < PRIORITY_SHARE
            self.redraw = random.choice((0.0, 0.02, 0.2))
            self.eagerness = random.choice((0.02, 0.1, 0.3, 0.6, 0.9))
            self.burst = random.choice((1, 3, 10, 100))
            machine.tasks.eagerness = 0.0 if self.by_priority else random.choice((0.0, 0.2, 0.8))

    def add(self, warp: Warp) -> None:
        """A warp that can run."""
        if self.random is not None:
            warp.priority = self.random.random()
        self.ready.append(warp)

    def wake(self, warp: Warp) -> None:
        """What it waited for has happened."""
        if warp in self.waiting:
            del self.waiting[warp]
            self.ready.append(warp)
            self.vain = 0

    def run(self) -> None:
        """Until no warp is left and nothing is under way."""
        while True:
            chosen = self.choose()
            if isinstance(chosen, Warp):
                self.ready.remove(chosen)
                self.turn(chosen)
            elif chosen is not None:
                self.machine.tasks.step(chosen)
            elif not self.waiting:
                return
            else:
                self.stuck()

    def choose(self) -> Warp | Task | None:
        """Who runs next; None if nobody can."""
        if self.random is None:
            return self.ready[0] if self.ready else None
        tasks = self.machine.tasks.candidates()
        if self.by_priority:
            return max([*self.ready, *tasks], key=lambda one: one.priority, default=None)
        if tasks and (not self.ready or self.random.random() < self.eagerness):
            return self.random.choice(tasks)
        return self.random.choice(self.ready) if self.ready else None

    def turn(self, warp: Warp) -> None:
        """Let a warp run."""
        self.machine.actor = warp
        state = warp.run(self.burst)
        self.machine.actor = None
        warp.turns = warp.turns + 1 if state == RUNNING else 0
        if self.random is not None and (state == RUNNING or self.random.random() < self.redraw):
            # One that could go on draws again always: it may spin on what another has yet to do.
            warp.priority = self.random.random() * (warp.priority if warp.turns > PATIENCE else 1.0)
        if state == RUNNING:
            self.ready.append(warp)
        elif state == FINISHED:
            self.machine.left(warp)
        else:
            self.waiting[warp] = None

    def stuck(self) -> None:
        """All warps wait and nothing is under way: a try_wait may time out (PTX ISA), all else is a deadlock."""
        self.vain += 1
        patient = [warp for warp in self.waiting if warp.wait.may_time_out]
        if self.vain > TIMEOUTS or not patient:
            raise KernelFault("deadlock", deadlock(list(self.waiting)))
        for warp in patient:
            warp.timed_out = True
            warp.wait.barrier.waiters.remove(warp)
            del self.waiting[warp]
            self.ready.append(warp)
