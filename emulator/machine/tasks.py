"""Asynchronous work: what has been issued and is not complete.

A task is a list of steps. In program order (no seed) every step runs when the task is issued. With a seed, tasks wait here and
the scheduler runs a step of any of them at any moment; a pipe keeps the order of its tasks (PTX ISA, tcgen05 pipelined
instructions), tasks outside pipes have none.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Task:
    """name: for reports. cta: where it was issued. at: position of the instruction. steps: what is left to do, in order.
    agent: what an observer remembers of it. issuer: the warp, or the task, that started it."""

    name: str
    cta: Any
    at: int
    steps: deque[Callable[["Task"], None]]
    done: int = 0
    result: Any = None  # registers that its last step fills, if any
    agent: Any = None
    priority: float = 0.0
    pipe: "Pipe | None" = None
    issuer: Any = None

    def __post_init__(self) -> None:
        self.issuer = self.cta.machine.actor

    @property
    def whole_name(self) -> str:
        """With the warp that issued it."""
        if self.issuer is None or self.issuer.name in self.name:
            return self.name
        return f"{self.name}, issued by {self.issuer.name}"

    def step(self) -> None:
        """Run the next step."""
        machine = self.cta.machine
        outer, machine.actor = machine.actor, self
        self.steps.popleft()(self)
        machine.actor = outer
        self.done += 1

    def advance(self, done: int) -> None:
        """Run steps until that many are done."""
        while self.done < done and self.steps:
            self.step()

    def finish(self) -> None:
        """Run all steps that are left."""
        while self.steps:
            self.step()


@dataclass(eq=False)
class Pipe:
    """Tasks that run one after another."""

    name: str
    tasks: deque[Task] = field(default_factory=deque)

    def finish(self) -> None:
        """Run all that is left."""
        while self.tasks:
            self.tasks.popleft().finish()


@dataclass(eq=False)
class Tasks:
    """What is under way in the whole machine. random: None in program order; eagerness: how often a step is done at once."""

    random: Any
    eagerness: float = 0.5
    loose: list[Task] = field(default_factory=list)
    pipes: list[Pipe] = field(default_factory=list)

    def issue(self, task: Task, pipe: Pipe | None = None) -> None:
        """Start a task, in a pipe or on its own."""
        if self.random is None:
            task.finish()
            return
        while task.steps and (pipe is None or not pipe.tasks) and self.random.random() < self.eagerness:
            task.step()
        if not task.steps:
            return
        task.priority = self.random.random()
        task.pipe = pipe
        if pipe is None:
            self.loose.append(task)
        else:
            if not pipe.tasks:
                self.pipes.append(pipe)
            pipe.tasks.append(task)

    def drain(self, pipe: Pipe, last: Task) -> None:
        """Run what a pipe holds, up to a task."""
        while last.steps and pipe.tasks:
            pipe.tasks.popleft().finish()
        if not pipe.tasks and pipe in self.pipes:
            self.pipes.remove(pipe)

    def candidates(self) -> list[Task]:
        """Tasks of which a step may run now: of a pipe the first only."""
        self.loose = [task for task in self.loose if task.steps]
        return [*self.loose, *(pipe.tasks[0] for pipe in self.pipes)]

    def step(self, task: Task) -> None:
        """One step of a candidate."""
        task.step()
        if task.steps:
            return
        if task.pipe is None:
            self.loose.remove(task)
            return
        task.pipe.tasks.popleft()
        if not task.pipe.tasks:
            self.pipes.remove(task.pipe)
