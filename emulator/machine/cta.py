"""A CTA and its cluster."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import LANES
from attnspec.emulator.machine.barriers import ClusterBarrier, Mbarrier, NamedBarrier
from attnspec.emulator.machine.layout import Layout
from attnspec.emulator.machine.shared_memory import SharedMemory
from attnspec.emulator.machine.special import special_of_cta, special_of_warp
from attnspec.emulator.machine.tasks import Pipe
from attnspec.emulator.machine.tensor_memory import TensorMemory
from attnspec.emulator.machine.warp import Warp
from attnspec.emulator.ptx.operands import Immediate, Kernel

SM_REGISTERS = 65536
MOST_REGISTERS = 255


@lru_cache(maxsize=64)
def most_asked(kernel: Kernel) -> int:
    """The most registers that a setmaxnreg.inc of a kernel asks for: ptxas launches it with no more ("Used 232 registers" of 256
    threads that ask for 232)."""
    asked = [one.operands[0] for one in kernel.instructions if one.opcode.startswith("setmaxnreg.inc")]
    return max((one.value for one in asked if isinstance(one, Immediate)), default=MOST_REGISTERS)


@dataclass(eq=False)
class Cluster:
    """CTAs that see each other's shared memory. ctas: by rank."""

    machine: Any
    number: int
    ctas: list["Cta"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.barrier = ClusterBarrier(self)

    def live(self) -> list[Warp]:
        """Warps that have not exited."""
        return [warp for cta in self.ctas for warp in cta.warps if not warp.finished]

    def cta(self, rank: int) -> "Cta":
        """The CTA of a rank."""
        if rank >= len(self.ctas):
            raise KernelFault("out-of-bounds", f"shared address of CTA rank {rank} in a cluster of {len(self.ctas)}")
        return self.ctas[rank]


class Cta:
    """place: its index in the grid (x, y, z); rank: in its cluster."""

    def __init__(self, cluster: Cluster, place: tuple[int, int, int], rank: int, layout: Layout) -> None:
        machine = cluster.machine
        self.machine = machine
        self.cluster = cluster
        self.place = place
        self.rank = rank
        self.name = "CTA " + (",".join(map(str, place)) if any(place[1:]) else str(place[0]))
        self.layout = layout
        self.shared = SharedMemory(self.name, layout.shared_bytes, machine.checks, machine.observer, machine.names)
        for offset, initial in layout.initial_shared:
            self.shared.bytes[offset : offset + len(initial)] = np.frombuffer(initial, np.uint8)
        self.tensor = TensorMemory(self.name, machine.checks, machine.observer, machine.names)
        self.tensor_pipe = Pipe(f"tensor pipe of {self.name}")
        self.named: dict[int, NamedBarrier] = {}
        self.register_waiters: list[Warp] = []
        self.tensor_waiters: list[Warp] = []
        threads = machine.launch.threads
        self.warps: list[Warp] = []
        shared_special = special_of_cta(self)
        for index in range(-(-threads // LANES)):
            numbers = np.arange(index * LANES, (index + 1) * LANES)
            special = shared_special | special_of_warp(numbers, machine.launch.block, index)
            self.warps.append(Warp(self, index, machine.program, numbers < threads, special))
        allowed = min(MOST_REGISTERS, SM_REGISTERS // max(1, threads) // 8 * 8, most_asked(machine.program.kernel))
        launched = machine.launch.registers
        for warp in self.warps:
            warp.register_count = -(-launched // 8) * 8 if launched else allowed
        # What is released is the pool: a CTA has what it was launched with (FACTS C10).
        self.free_registers = 0 if launched else SM_REGISTERS - allowed * LANES * len(self.warps)

    def mbarrier(self, offset: int) -> Mbarrier:
        """The mbarrier at an offset."""
        found = self.shared.barriers.get(offset)
        if found is None:
            raise KernelFault("barrier-uninitialised", f"there is no mbarrier at {self.shared.show(offset)} of {self.name}")
        return found

    def barrier(self, number: int) -> NamedBarrier:
        """A named barrier."""
        if not 0 <= number < 16:
            raise KernelFault("barrier-number", f"named barrier {number}: there are 16")
        if number not in self.named:
            self.named[number] = NamedBarrier(self, number)
        return self.named[number]

    def live_threads(self) -> int:
        """Threads of warps that have not exited, in units of 32."""
        return LANES * sum(not warp.finished for warp in self.warps)

    def left(self, warp: Warp) -> None:
        """A warp has exited."""
        for task in warp.bulk_open + [task for group in warp.bulk_groups for task in group]:
            if task.done == 0 and task.steps:
                # What it still has to read belongs to a CTA that may be gone.
                task.name = f"{task.name} (issued by {warp.name}, which has exited)"
        self.cluster.barrier.flip()
        if all(other.finished for other in self.warps):
            self.shared.alive = False
            for wrong in filter(None, (barrier.unsettled() for barrier in self.shared.barriers.values())):
                self.machine.fault("barrier-bytes", f"{self.name} exits with {wrong}", None)
            if self.tensor.allocations:
                columns = ", ".join(f"{first} to {first + count - 1}" for first, count in self.tensor.allocations.items())
                self.machine.fault("tensor-not-freed", f"{self.name} exits with tensor memory columns {columns} allocated", warp)
