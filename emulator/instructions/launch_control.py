"""clusterlaunchcontrol: a running cluster takes over one that has not started. PTX ISA 9.7.18.

The 16 bytes of an answer are opaque to kernels; here they are x, y, z of the first CTA, and 1 if there was a cluster left.
"""

from collections import deque
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.instructions.bulk_copy import uniform
from attnspec.emulator.instructions.rule import Act, Pure, Rule, address_type, items_of, only, unsupported
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.ptx.operands import Instruction

ANSWER = 16  # bytes
WORDS = ("try_cancel", "async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all", "b128")


def cancel(instruction: Instruction) -> Rule:
    """clusterlaunchcontrol.try_cancel.async...b128 [to], [mbarrier]"""
    only(instruction, *WORDS)
    target, barrier = instruction.operands
    reads = ((target, address_type(instruction, target)), (barrier, address_type(instruction, barrier)))
    return Act(partial(request, all="multicast::cluster::all" in instruction.parts), reads)


def request(warp: Any, mask: Any, targets: Any, barriers: Any, all: bool) -> None:
    """Ask for the next cluster; the answer arrives later, with .multicast in every CTA of the cluster."""
    to, heard = uniform(warp, mask, targets, barriers)
    (cta, offset), (_, signal) = shared_place(warp, to), shared_place(warp, heard)
    ctas = warp.cta.cluster.ctas if all else [cta]
    held: list[Any] = []

    def take(task: Task) -> None:
        place = warp.machine.take_next()
        held.append(np.array([*(place or (0, 0, 0)), int(place is not None)], np.uint32)[:, None])

    def put(task: Task) -> None:
        for one in ctas:
            one.shared.store(task, np.array([offset]), held[0], 4)

    def tell(task: Task) -> None:
        for one in ctas:
            one.mbarrier(signal).complete(task, ANSWER)

    task = Task("clusterlaunchcontrol.try_cancel", warp.cta, warp.at, deque([take, put, tell]))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task)
    warp.machine.tasks.issue(task)


def query(instruction: Instruction) -> Rule:
    """query_cancel.is_canceled.pred.b128 p, answer; .get_first_ctaid[::AXIS] d, answer"""
    words = instruction.parts
    target, answer = instruction.operands
    parts = "{0}.view(T_u32).reshape({0}.shape + (4,))"
    if words[2] == "is_canceled":
        return Pure(f"{parts}[..., 3] == 1", ((answer, "u128"),), ((target, "pred"),))
    axis = words[2].partition("::")[2]
    if axis:
        return Pure(f"{parts}[..., {'xyz'.index(axis)}].copy()", ((answer, "u128"),), ((target, "u32"),))
    if words[2] != "get_first_ctaid":
        raise unsupported(instruction, "this query")
    code = ", ".join(f"{parts}[..., {number}].copy()" for number in range(4))
    return Pure(code, ((answer, "u128"),), tuple((one, "u32") for one in items_of(target)))


TABLE = {"clusterlaunchcontrol.try_cancel": cancel, "clusterlaunchcontrol.query_cancel": query}
