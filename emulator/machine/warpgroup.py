"""Four warps that multiply together. PTX ISA 9.7.15: all warps of a warpgroup execute the same wgmma; it is one operation, which
is complete for all of them or for none."""

from dataclasses import dataclass, field
from typing import Any

from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.tasks import Task

WARPS = 4


@dataclass(eq=False)
class Warpgroup:
    """tasks: of each warp, its products from number `first` on; done: how many each knows to be complete; waiting: warps that
    wait for others to issue."""

    name: str
    warps: list[Any]
    tasks: dict[int, list[Task]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    first: int = 0
    waiting: list[Any] = field(default_factory=list)

    def add(self, warp: Any, task: Task) -> None:
        """A warp issues its next product: the same instruction as the others' with that number."""
        mine = self.tasks[warp.index]
        for index, theirs in self.tasks.items():
            if len(theirs) > len(mine) and theirs[len(mine)].at != task.at:
                number = self.first + len(mine)
                raise KernelFault("divergent", f"{warp.name} and warp {index} issue different wgmma as product {number}")
        mine.append(task)
        waiting, self.waiting = self.waiting, []
        for other in waiting:
            warp.machine.scheduler.wake(other)

    def number(self, warp: Any, task: Task) -> int:
        """Which product of the warp a task is."""
        return self.first + self.tasks[warp.index].index(task)

    def joined(self, number: int) -> bool:
        """Whether all warps have issued a product."""
        return all(self.first + len(tasks) > number for tasks in self.tasks.values())

    def complete(self, warp: Any, number: int) -> list[Task]:
        """Run the products of all warps up to a number; all of them that are kept, the oldest of each warp first."""
        found: list[Task] = []
        for other in self.warps:
            tasks = self.tasks[other.index][: number - self.first + 1]
            if tasks:
                warp.machine.tasks.drain(other.matrix_pipe, tasks[-1])
            found += tasks
        self.done[warp.index] = number + 1
        passed = min(self.done.values()) - self.first
        if passed > 0:
            self.first += passed
            self.tasks = {index: tasks[passed:] for index, tasks in self.tasks.items()}
        return found

    def state(self) -> str:
        """For reports."""
        counts = ", ".join(f"warp {index} {self.first + len(tasks)}" for index, tasks in self.tasks.items())
        return f"products issued: {counts}"


def warpgroup_of(warp: Any) -> Warpgroup:
    """The warpgroup of a warp; its last may have fewer warps, where a CTA has no multiple of 128 threads."""
    number = warp.index // WARPS
    key = ("warpgroup", warp.cta, number)
    found = warp.machine.cache.get(key)
    if found is None:
        warps = warp.cta.warps[WARPS * number : WARPS * number + WARPS]
        tasks, done = {one.index: [] for one in warps}, {one.index: 0 for one in warps}
        found = Warpgroup(f"the other warps of warpgroup {number} of {warp.cta.name}", warps, tasks, done)
        warp.machine.cache[key] = found
    return found
