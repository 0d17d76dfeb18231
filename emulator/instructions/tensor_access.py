"""tcgen05.alloc, dealloc, ld, st, wait, fence. PTX ISA 9.7.16.7, 9.7.16.8; FACTS C1, C5."""

import re
from collections import deque
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.control import Waiting
from attnspec.emulator.instructions.rule import (
    BLOCKED,
    LANES,
    Act,
    Control,
    Rows,
    Rule,
    address_type,
    items_of,
    only,
    unsupported,
)
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.ptx.operands import Immediate, Instruction

LANE = np.arange(LANES)


def group_of(instruction: Instruction) -> int:
    """1 or 2: CTAs that act together."""
    return 2 if "cta_group::2" in instruction.parts else 1


def allocate(instruction: Instruction) -> Rule:
    """tcgen05.alloc [to], columns"""
    address, columns = instruction.operands
    reads = ((address, address_type(instruction, address)), (columns, "u32"))
    return Act(partial(allocate_columns, group=group_of(instruction)), reads, blocking=True)


class Columns:
    """Free tensor memory as something to wait for."""

    def __init__(self, cta: Any, count: int) -> None:
        self.cta, self.count = cta, count
        self.name = f"{count} columns of tensor memory"

    def state(self) -> str:
        """What is taken."""
        return f"{self.cta.name} has {self.cta.tensor.allocations} allocated"


def allocate_columns(warp: Any, mask: Any, address: Any, columns: Any, group: int) -> Any:
    """Take columns and write their address to shared memory; wait while there are none. A pair allocates in each CTA."""
    count = int(columns[0])
    tensor = warp.cta.tensor
    first = tensor.allocate(count)
    if first is None:
        warp.cta.tensor_waiters.append(warp)
        warp.wait = Waiting(Columns(warp.cta, count))
        return BLOCKED
    warp.wait = None
    cta, offset = shared_place(warp, int(address[0]))
    cta.shared.store(warp, np.array([offset]), np.array([[first]], np.uint32), 4)
    return None


def free(instruction: Instruction) -> Rule:
    """tcgen05.dealloc address, columns"""
    address, columns = instruction.operands
    return Act(free_columns, ((address, "u32"), (columns, "u32")))


def free_columns(warp: Any, mask: Any, address: Any, columns: Any) -> None:
    """Give columns back; wake who waits for some."""
    warp.cta.tensor.free(int(address[0]) & 0xFFFF, int(columns[0]))
    waiters, warp.cta.tensor_waiters = warp.cta.tensor_waiters, []
    for other in waiters:
        warp.machine.scheduler.wake(other)


def relinquish(instruction: Instruction) -> Rule:
    """tcgen05.relinquish_alloc_permit"""

    def call(warp: Any, mask: Any) -> None:
        warp.cta.tensor.may_allocate = False

    return Act(call)


@lru_cache(maxsize=64)
def places(shape: str, registers: int, split: int) -> tuple[Any, Any]:
    """(column, lane) of register r (rows) in thread t (columns), from the address (FACTS C5)."""
    r, t = np.arange(registers)[:, None], LANE[None]
    if shape == "32x32b":
        column, lane = r + 0 * t, t + 0 * r
    elif shape == "16x256b":
        column, lane = 2 * (t % 4) + r % 2 + 8 * (r // 4), t // 4 + 8 * (r // 2 % 2)
    elif shape == "16x128b":
        column, lane = t % 4 + 4 * (r // 2), t // 4 + 8 * (r % 2)
    elif shape == "16x64b":
        column, lane = (t >> 1 & 1) + 2 * r, t // 4 + 8 * (t & 1)
    else:
        column, lane = r + split * (t // 16), t % 16 + 0 * r
    return np.broadcast_to(column, (registers, LANES)), np.broadcast_to(lane, (registers, LANES))


SHAPES = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}


def access(instruction: Instruction) -> Rule:
    """tcgen05.ld and .st"""
    words = instruction.parts
    shape = next((word for word in words if word in SHAPES), None)
    times = next((int(word[1:]) for word in words if re.fullmatch(r"x\d+", word)), None)
    if shape is None or times is None:
        raise unsupported(instruction, "this shape")
    loads = words[1] == "ld"
    packing = "pack::16b" if loads else "unpack::16b"
    only(instruction, "ld", "st", "sync", "aligned", "b32", shape, f"x{times}", packing)
    values, address = instruction.operands[:: 1 if loads else -1][0], instruction.operands[1 if loads else 0]
    split = 0
    if shape == "16x32bx2":
        number = instruction.operands[2 if loads else 1]
        split = number.value if isinstance(number, Immediate) else 0
    rows = Rows(items_of(values))
    if len(rows.items) != SHAPES[shape] * times:
        raise unsupported(instruction, f"{SHAPES[shape] * times} registers wanted")
    where = partial(load if loads else store, shape=shape, registers=len(rows.items), split=split, packed=packing in words)
    if loads:
        return Act(where, ((address, "u32"),), ((rows, "u32"),), pending=True, unit="tcgen05.ld")
    return Act(where, ((address, "u32"), (rows, "u32")), unit="tcgen05.st")


def locate(warp: Any, mask: Any, address: Any, shape: str, registers: int, split: int, packed: bool = False) -> tuple[Any, Any]:
    """(columns, lanes) of an access: slices for 32x32b, else index arrays. A warp reaches the lanes of its quadrant only. packed:
    each register is two columns, first all even ones, then all odd ones."""
    if mask is not None:
        raise KernelFault("divergent", "tcgen05.ld and .st need all 32 lanes")
    warp.meet(orders=False)
    if (address != address[0]).any():
        raise KernelFault("divergent", "the tensor memory address differs between lanes")
    start = int(address[0])
    lane, column = start >> 16, start & 0xFFFF
    quadrant = 32 * (warp.index % 4)
    allowed = (quadrant,) if shape == "32x32b" else (quadrant, quadrant + 16)
    if lane not in allowed:
        reach = f"lanes {quadrant} to {quadrant + 31}"
        raise KernelFault("tensor-quadrant", f"{warp.name} reaches {reach}, the address says lane {lane}")
    if packed:
        columns, lanes = places(shape, registers, split // 2)
        return np.concatenate((2 * columns, 2 * columns + 1)) + column, np.concatenate((lanes, lanes)) + lane
    if shape == "32x32b":
        return slice(column, column + registers), slice(lane, lane + LANES)
    columns, lanes = places(shape, registers, split)
    return columns + column, lanes + lane


def load(warp: Any, mask: Any, address: Any, shape: str, registers: int, split: int, packed: bool = False) -> Any:
    """Registers as rows. With a seed they arrive at some moment before wait::ld, or before they are used."""
    columns, lanes = locate(warp, mask, address, shape, registers, split, packed)
    tensor = warp.cta.tensor

    def found(actor: Any) -> Any:
        words = tensor.read(actor, columns, lanes)
        return words[:registers] & np.uint32(0xFFFF) | words[registers:] << np.uint32(16) if packed else words

    if warp.machine.random is None and warp.machine.observer is None:
        return found(warp).copy()
    result = np.full((registers, LANES), 0xFFFFFFFF, np.uint32)

    def arrive(task: Task) -> None:
        result[...] = found(task)

    start(warp, "tcgen05.ld", arrive, warp.tensor_loads)
    return result


def store(warp: Any, mask: Any, address: Any, values: Any, shape: str, registers: int, split: int, packed: bool = False) -> None:
    """Write registers. With a seed they arrive at some moment before wait::st."""
    columns, lanes = locate(warp, mask, address, shape, registers, split, packed)
    if packed:
        values = np.concatenate((values & np.uint32(0xFFFF), values >> np.uint32(16)))
    tensor = warp.cta.tensor
    if warp.machine.random is None and warp.machine.observer is None:
        tensor.write(warp, columns, lanes, values)
        return
    start(warp, "tcgen05.st", lambda task: tensor.write(task, columns, lanes, values), warp.tensor_stores)


def start(warp: Any, name: str, step: Any, pending: list[Any]) -> None:
    """Issue a tensor memory access of a warp."""
    pending[:] = [task for task in pending if task.steps]
    task = Task(f"{name} of {warp.name}", warp.cta, warp.at, deque([step]))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task)
    pending.append(task)
    warp.machine.tasks.issue(task)


def settle(warp: Any, mask: Any, kind: str) -> None:
    """wait::ld and wait::st: the warp's own accesses are complete."""
    pending = warp.tensor_loads if kind == "tensor_load" else warp.tensor_stores
    for task in pending:
        task.finish()
    pending.clear()
    if kind == "tensor_load":
        warp.unsettled.clear()
    if warp.machine.observer is not None:
        warp.machine.observer.settled(warp, kind)


def wait(instruction: Instruction) -> Rule:
    """tcgen05.wait::ld, tcgen05.wait::st"""
    loads = "wait::ld" in instruction.parts
    return Act(partial(settle, kind="tensor_load" if loads else "tensor_store"), settles=loads)


def fence(instruction: Instruction) -> Rule:
    """tcgen05.fence::before_thread_sync, ::after_thread_sync"""
    kind = "tensor_before" if "before" in instruction.opcode else "tensor_after"

    def call(warp: Any, mask: Any) -> None:
        if warp.machine.observer is not None:
            warp.machine.observer.fence(warp, kind)

    return Act(call)


def nothing(instruction: Instruction) -> Rule:
    """No effect on results."""
    return Control("nothing")


TABLE = {
    "tcgen05.alloc": allocate,
    "tcgen05.dealloc": free,
    "tcgen05.relinquish_alloc_permit": relinquish,
    "tcgen05.ld": access,
    "tcgen05.st": access,
    "tcgen05.wait::ld": wait,
    "tcgen05.wait::st": wait,
    "tcgen05.fence::before_thread_sync": fence,
    "tcgen05.fence::after_thread_sync": fence,
}
