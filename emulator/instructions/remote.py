"""Traffic between the CTAs of a cluster that completes at an mbarrier, and who owns an address. PTX ISA 9.7.9.12 (st.async),
9.7.13.7 (red.async), 9.7.9.26 (getctarank)."""

from collections import deque
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.instructions.memory import VECTORS
from attnspec.emulator.instructions.rule import LANES, Act, Pure, Rows, Rule, address_type, items_of, kind_of, only, unsupported
from attnspec.emulator.machine.address import RANK_BITS, shared_place
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.numerics.reductions import combine
from attnspec.emulator.ptx.operands import Instruction

WORDS = ("async", "weak", "relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes")
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def send(instruction: Instruction) -> Rule:
    """st.async...[.VECTOR].TYPE [to], values, [mbarrier]; red.async...OP.TYPE [to], value, [mbarrier]"""
    words = instruction.parts
    name = next((word for word in words if word in REDUCTIONS), None) if words[0] == "red" else None
    if "mbarrier::complete_tx::bytes" not in words or (words[0] == "red") != (name is not None):
        raise unsupported(instruction, "this form")
    only(instruction, *WORDS, *VECTORS, *(() if name is None else (name,)), words[-1])
    target, value, barrier = instruction.operands
    kind = kind_of(instruction, {"f32": "u32", "f64": "u64"}.get(words[-1], words[-1]))
    raw = "u64" if kind.endswith("64") else "u32"
    reads = ((target, address_type(instruction, target)), (Rows(items_of(value)), raw))
    call = partial(start, operation=name, type=kind)
    return Act(call, (*reads, (barrier, address_type(instruction, barrier))), unit=f"{words[0]}.async")


def start(warp: Any, mask: Any, targets: Any, values: Any, barriers: Any, operation: str | None, type: str) -> None:
    """Each active lane's values travel on their own; their bytes are counted where they arrive."""
    for lane in range(LANES) if mask is None else np.flatnonzero(mask).tolist():
        to, heard = (shared_place(warp, int(one[lane])) for one in (targets, barriers))
        task = Task(f"{'st' if operation is None else 'red'}.async of {warp.name}", warp.cta, warp.at, deque())
        task.steps += [
            partial(put, place=to, values=values[:, lane], operation=operation, type=type),
            partial(tell, heard=heard, count=values[:, lane].nbytes),
        ]
        if warp.machine.observer is not None:
            warp.machine.observer.issue(warp, task)
        warp.machine.tasks.issue(task)


def put(task: Task, place: tuple[Any, int], values: Any, operation: str | None, type: str) -> None:
    """Write or combine."""
    cta, offset = place
    offsets = np.array([offset])
    if operation is not None:
        old = cta.shared.load(task, offsets, values.itemsize, 1)
        values = combine(operation, type, old, values[:, None])[:, 0]
    cta.shared.store(task, offsets, values[:, None], values.itemsize)


def tell(task: Task, heard: tuple[Any, int], count: int) -> None:
    """Count the bytes at the mbarrier."""
    cta, offset = heard
    cta.shared.require_alive(task, offset)
    cta.mbarrier(offset).complete(task, count)


def rank(instruction: Instruction) -> Pure:
    """getctarank: the CTA of a shared address"""
    only(instruction, "shared::cluster", instruction.parts[-1])
    target, address = instruction.operands
    kind = kind_of(instruction, instruction.parts[-1])
    code = f"({{0}} >> T_{kind}({RANK_BITS}) & T_{kind}(0xFF)).astype(T_u32)"
    return Pure(code, ((address, kind),), ((target, "u32"),))


TABLE = {"st.async": send, "red.async": send, "getctarank": rank}
