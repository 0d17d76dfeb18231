"""cp.async: copies of 4, 8 or 16 bytes a lane that arrive later. PTX ISA 9.7.9.25.3 (non-bulk copy), 9.7.13.15.17 (arrive)."""

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import LANES, Act, Rule, active, address_type, first_active, only, unsupported
from attnspec.emulator.machine.address import by_cta, shared_place
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.ptx.operands import Immediate, Instruction

WORDS = ("async", "ca", "cg", "shared", "shared::cta", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B")
SIZES = (4, 8, 16)


def copy(instruction: Instruction) -> Rule:
    """cp.async.CACHE.shared.global [to], [from], bytes [, bytes read or predicate to ignore] [, policy]"""
    words = instruction.parts
    if "commit_group" in words:
        return Act(commit)
    if "wait_group" in words or "wait_all" in words:
        number = instruction.operands[0] if instruction.operands else Immediate(0)
        if not isinstance(number, Immediate):
            raise unsupported(instruction, "wanted a constant")
        return Act(partial(wait, count=number.value, all="wait_all" in words))
    if "mbarrier" in words:
        only(instruction, "async", "mbarrier", "arrive", "noinc", "shared", "shared::cta", "b64")
        (address,) = instruction.operands
        return Act(partial(arrive, counted="noinc" in words), ((address, address_type(instruction, address)),))
    only(instruction, *WORDS)
    target, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or size.value not in SIZES or ("cg" in words and size.value != 16):
        raise unsupported(instruction, "this size")
    if "L2::cache_hint" in words:
        rest = rest[:-1]
    reads = [(target, address_type(instruction, target)), (source, "u64")]
    ignores = False
    if rest:
        ignores = getattr(rest[0], "bits", 32) == 1 or (not hasattr(rest[0], "bits") and hasattr(rest[0], "register"))
        reads.append((rest[0], "pred" if ignores else "u32"))
    return Act(partial(start, size=size.value, ignores=ignores), tuple(reads), unit="cp.async")


def start(warp: Any, mask: Any, targets: Any, sources: Any, read: Any = None, size: int = 16, ignores: bool = False) -> None:
    """Issue the lanes' copies as one task. read: bytes that are read, the rest being 0; or lanes that read nothing."""
    lanes = slice(None) if mask is None else mask
    targets, sources = targets[lanes], sources[lanes]
    if read is None:
        kept = np.full(len(targets), size)
    else:
        kept = np.where(read[lanes], 0, size) if ignores else read[lanes].astype(np.int64)
    if (kept > size).any():
        raise KernelFault("out-of-bounds", f"cp.async of {size} bytes reads {int(kept.max())}")
    if (sources % np.uint64(size)).any():
        raise KernelFault("misaligned", f"cp.async of {size} bytes from {int(sources[sources % np.uint64(size) != 0][0]):#x}")
    ((cta, _, offsets),) = by_cta(warp, targets)

    def move(task: Task) -> None:
        cta.shared.store(task, offsets, fetched(warp.machine.memory, task, sources, kept, size), 4)

    task = Task(f"cp.async of {warp.name}", warp.cta, warp.at, deque([move]))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task)
    mine = (warp.lanes if mask is None else mask).copy()
    warp.copies_open.append((Copies(task, mine), mine))
    warp.machine.tasks.issue(task)


def fetched(memory: Any, task: Task, sources: Any, kept: Any, size: int) -> Any:
    """Words (size / 4, lanes); bytes beyond those that are read are 0."""
    result = np.zeros((len(sources), size), np.uint8)
    for count in np.unique(kept[kept > 0]).tolist():
        lanes = np.flatnonzero(kept == count)
        if count == size:
            result[lanes] = np.ascontiguousarray(memory.load(task, sources[lanes], 4, size // 4).T).view(np.uint8)
        else:
            places = sources[lanes, None] + np.arange(count, dtype=np.uint64)
            result[lanes, :count] = memory.load(task, places.ravel(), 1, 1).reshape(len(lanes), count)
    return result.view(np.uint32).T


@dataclass(eq=False)
class Copies:
    """What one instruction copies. lanes: that take part; known: those that have waited for theirs."""

    task: Task
    lanes: Any
    known: Any = field(default_factory=lambda: np.zeros(LANES, np.bool_))

    def learn(self, lanes: Any) -> bool:
        """Some lanes know theirs to be there, so the whole may be; whether all lanes do now, who did not before."""
        before = (self.known >= self.lanes).all()
        self.known = self.known | lanes
        self.task.finish()
        return bool((self.known >= self.lanes).all() and not before)


@dataclass(eq=False)
class Group:
    """What lanes committed together. lanes: whose group is not known to be complete."""

    lanes: Any
    copies: list[Copies]


def commit(warp: Any, mask: Any) -> None:
    """Close the open group of each lane. Lanes have groups of their own (PTX ISA: of the executing thread)."""
    lanes = warp.lanes if mask is None else mask
    warp.copy_groups.append(Group(lanes.copy(), [copies for copies, open in warp.copies_open if (open & lanes).any()]))
    warp.copies_open = [(copies, open & ~lanes) for copies, open in warp.copies_open if (open & ~lanes).any()]


def wait(warp: Any, mask: Any, count: int, all: bool) -> None:
    """All of a lane's groups but the `count` most recent are complete; wait_all: its open one too."""
    if all:
        commit(warp, mask)
    lanes = warp.lanes if mask is None else mask
    newer = np.zeros(LANES, np.int64)
    tasks: list[Task] = []
    for group in reversed(warp.copy_groups):
        done = group.lanes & lanes & (newer >= count)
        newer += group.lanes
        group.lanes = group.lanes & ~done
        tasks += [copies.task for copies in group.copies if done.any() and copies.learn(done)]
    warp.copy_groups = [group for group in warp.copy_groups if group.lanes.any()]
    if warp.machine.observer is not None:
        warp.machine.observer.settled(warp, "copy", tasks)


def arrive(warp: Any, mask: Any, addresses: Any, counted: bool) -> None:
    """Every active lane arrives once its copies so far are complete. counted: the barrier's count foresees these arrivals
    (.noinc); else they are added to what is pending."""
    lanes = active(mask)
    cta, offset = shared_place(warp, int(addresses[first_active(mask)]))
    barrier = cta.mbarrier(offset)
    mine = warp.lanes if mask is None else mask
    issued = {copies: None for group in warp.copy_groups for copies in group.copies} | {one: None for one, _ in warp.copies_open}
    before = [copies for copies in issued if (copies.lanes & mine).any()]
    if not counted:
        barrier.pending += lanes

    def tell(task: Task) -> None:
        for one in before:
            one.task.finish()
        if warp.machine.observer is not None:
            known = [one.task for one in before if ((one.known | mine) >= one.lanes).all()]
            warp.machine.observer.settled(task, "copy", known)
        barrier.arrive(task, lanes)

    task = Task(f"cp.async.mbarrier.arrive of {warp.name}", warp.cta, warp.at, deque([tell]))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task)
    warp.machine.tasks.issue(task)


TABLE = {"cp.async": copy}
