"""What one tile of a forward costs, by unit: counted while the emulator runs the kernel's PTX, by the difference of two lengths.

PTX, not SASS: ptxas makes three-input instructions, drops most `mov`, and adds address arithmetic of its own. It keeps what binds
a kernel: special functions, packed and plain FMA, conversions, barriers, bytes and matrix products.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import numpy as np
from attnspec.emulator.hazards.observer import Observer
from attnspec.emulator.machine.global_memory import GlobalMemory
from attnspec.emulator.machine.shared_memory import SharedMemory
from attnspec.emulator.machine.tensor_memory import TensorMemory
from attnspec.emulator.report import Report

MACS = 4096  # of 16-bit operands, a cycle of one processor: 128 x 128 x 16 in 64 cycles (8192 FLOP a cycle, FACTS)
MUFU = {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"}
FLOAT = {"fma", "add", "sub", "mul"}
BARRIERS = ("mbarrier.arrive", "mbarrier.try_wait", "bar.", "barrier.", "cp.async.mbarrier")
LEFT_OUT = {  # by first word: not arithmetic, or counted elsewhere
    "mov", "bra", "ret", "exit", "ld", "st", "tcgen05", "cp", "mbarrier", "bar", "barrier", "fence", "elect", "shfl", "vote",
    "activemask", "redux", "setmaxnreg", "griddepcontrol", "cvta", "mapa", "prefetch", "createpolicy", "nanosleep", "mad",
    "membar", "prefetchu", "clusterlaunchcontrol", "trap",
}  # fmt: skip


def unit_of(opcode: str) -> str:
    """The unit that an instruction belongs to, or nothing."""
    words = opcode.split(".")
    if words[0] in MUFU:
        return "MUFU"
    if opcode.startswith(BARRIERS):
        return "barrier operations"
    if words[0] == "cvt":
        return "conversions"
    if words[-1] == "f32x2":
        return "f32x2"
    if words[0] in FLOAT and words[-1] == "f32":
        return "FMA"
    if words[0] in ("mad", "mul"):
        return "integer multiplies"
    return "" if words[0] in LEFT_OUT else "ALU"


class Meter(Observer):
    """Bytes by memory, and cycles of matrix products, as they happen."""

    def __init__(self, machine: Any, found: Counter[str]) -> None:
        self.machine = machine
        self.found = found

    def access(self, actor: Any, memory: Any, write: bool, places: Any, size: int, atomic: bool = False) -> None:
        """Bytes, by who moves them."""
        opcode = self.machine.program.kernel.instructions[(actor or self.machine.actor).at].opcode
        if isinstance(memory, TensorMemory):
            if opcode.startswith(("tcgen05.ld", "tcgen05.st")):
                columns, lanes = places
                self.found["TMEM bytes"] += extent(columns) * extent(lanes) * 4
        elif isinstance(memory, SharedMemory):
            if opcode.startswith("st.shared::cluster"):
                self.found["DSMEM bytes"] += np.size(places) * size
            elif opcode.startswith(("ld.shared", "st.shared", "ld.", "st.")):
                self.found["SMEM bytes by threads"] += np.size(places) * size
            elif opcode.startswith("cp.async.bulk") and write:
                self.found["SMEM bytes by TMA"] += np.size(places) * size
        elif isinstance(memory, GlobalMemory) and opcode.startswith(("ld.", "st.")):
            self.found["global bytes by threads"] += np.size(places) * size
        elif isinstance(memory, GlobalMemory) and opcode.startswith("cp.reduce") and write:
            self.found["global bytes added to"] += np.size(places) * size

    def issue(self, warp: Any, task: Any, pipe: Any = None) -> None:
        """A product names its shape."""
        if task.name.startswith("tcgen05.mma"):
            rows, columns, depth = (int(one) for one in task.name.split()[1].split("x"))
            self.found["MMA cycles"] += rows * columns * depth / MACS


def extent(places: Any) -> int:
    """Columns or lanes of an access."""
    return places.stop - places.start if isinstance(places, slice) else np.size(np.unique(places))


def metered(run: Callable[[], Report]) -> tuple[Counter[str], Report]:
    """Counts of a run, in all CTAs: instructions by unit, bytes, cycles."""
    module, found = sys.modules["attnspec.emulator.launch"], Counter[str]()

    def watch(machine: Any) -> None:
        machine.memory.observer = machine.observer = Meter(machine, found)

    with mock.patch.object(module, "watch", watch):
        report = run()
    for launched in report.launches:
        for opcode, times in launched.counts.items():
            found["warp instructions"] += times
            if unit := unit_of(opcode):
                found[unit] += times
    return found, report


def difference(short: Mapping[str, int], long: Mapping[str, int], tiles: float) -> dict[str, float]:
    """Of one tile."""
    return {name: (long[name] - short.get(name, 0)) / tiles for name in long}


def metered_kernel(run: Callable[[], Report], name: str) -> Counter[str]:
    """Counts of a run, of the kernels whose name holds `name`, in all CTAs."""
    module, found = sys.modules["attnspec.emulator.launch"], Counter[str]()

    def watch(machine: Any) -> None:
        if name in machine.program.kernel.name:
            machine.memory.observer = machine.observer = Meter(machine, found)

    with mock.patch.object(module, "watch", watch):
        report = run()
    for launched in report.launches:
        for opcode, times in launched.counts.items() if name in launched.kernel else ():
            found["warp instructions"] += times
            if opcode.startswith("cp.reduce.async.bulk"):
                found["bulk reductions"] += times
            if unit := unit_of(opcode):
                found[unit] += times
    return found
