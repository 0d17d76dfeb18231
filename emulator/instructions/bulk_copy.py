"""Bulk copies of plain bytes, loads and stores and reductions, and the groups that bulk stores form. PTX ISA 9.7.9.25; FACTS C9.
Boxes of tensors are in box_copy.py."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import Act, Control, Rule, address_type, first_active, only, unsupported
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.numerics.reductions import combine
from attnspec.emulator.ptx.operands import Immediate, Instruction

WORDS = (
    "async", "bulk", "reduce", "commit_group", "wait_group", "read", "bulk_group", "global", "shared::cta", "shared::cluster",
    "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint",
)  # fmt: skip
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
PLAIN_FORMATS = ("f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16")


def uniform(warp: Any, mask: Any, *arrays: Any) -> list[int]:
    """Operands of an operation that a warp does once: every active lane must give the same (EMULATOR pitfall: TMA stores are
    issued by whole warps)."""
    lane = first_active(mask)
    for array in arrays:
        lanes = array if mask is None else array[mask]
        if (lanes != lanes[0]).any():
            raise KernelFault("divergent", "lanes issue one bulk copy with different operands")
    return [int(array[lane]) for array in arrays]


def copy(instruction: Instruction) -> Rule | None:
    """cp.async.bulk and cp.reduce.async.bulk without .tensor"""
    words = instruction.parts
    if "prefetch" in words:
        return Control("nothing")
    if "tensor" in words:
        return None
    only(instruction, *WORDS, *REDUCTIONS, *PLAIN_FORMATS, "noftz")
    if "commit_group" in words:
        return Act(commit_group)
    if "wait_group" in words:
        (count,) = instruction.operands
        if not isinstance(count, Immediate):
            raise unsupported(instruction, "wanted a constant")
        return Act(partial(wait_group, count=count.value, read="read" in words))
    reduction = next((word for word in words if word in REDUCTIONS), None) if words[1] == "reduce" else None
    if words[1] == "reduce" and reduction is None:
        raise unsupported(instruction, "this reduction")
    places = [word.split("::")[0] for word in words if word.split("::")[0] in ("shared", "global")]
    if places == ["global", "shared"]:
        return store_plain(instruction, reduction)
    return load_plain(instruction, places[1], reduction)


@dataclass(frozen=True)
class Delivery:
    """Where a load goes: (CTA, offset) of the data, and of the mbarrier that hears of each."""

    places: tuple[tuple[Any, int], ...]
    barriers: tuple[tuple[Any, int], ...]


def delivery(warp: Any, target: int, barrier: int, mask: int | None, pairs: bool = False) -> Delivery:
    """The destinations of a load; with a mask, the same offsets in every CTA of it. pairs: the mbarrier that hears is in the CTA
    of the destination's pair that is even or odd as the one named is (PTX ISA, .cta_group::2)."""
    place, heard = shared_place(warp, target), shared_place(warp, barrier)
    if mask is None:
        return Delivery((place,), (heard,))
    cluster = warp.cta.cluster
    ranks = [rank for rank in range(16) if mask >> rank & 1]
    told = [(rank & ~1) | (heard[0].rank & 1) if pairs else rank for rank in ranks]
    return Delivery(tuple((cluster.cta(rank), place[1]) for rank in ranks), tuple((cluster.cta(rank), heard[1]) for rank in told))


def signal_bytes(task: Task, where: Delivery, count: int) -> None:
    """Tell each mbarrier that its bytes are there."""
    for cta, offset in where.barriers:
        cta.shared.require_alive(task, offset)
        cta.mbarrier(offset).complete(task, count)


def issue(warp: Any, name: str, steps: list[Any], group: bool = False) -> None:
    """Start a task of a warp; stores belong to the warp's open bulk group."""
    task = Task(name, warp.cta, warp.at, deque(steps))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task)
    if group:
        warp.bulk_open.append(task)
    warp.machine.tasks.issue(task)


def load_plain(instruction: Instruction, origin: str, reduction: str | None) -> Rule:
    """cp.async.bulk to shared, from global or another CTA: [to], [from], bytes, [mbarrier] [, mask] [, hint]"""
    if reduction is not None:
        raise unsupported(instruction, "reductions to shared memory")
    target, source, count, barrier, *rest = instruction.operands
    source_type = "u64" if origin == "global" else address_type(instruction, source)
    reads = [
        (target, address_type(instruction, target)),
        (source, source_type),
        (count, "u32"),
        (barrier, address_type(instruction, barrier)),
    ]
    if "multicast::cluster" in instruction.parts:
        reads.append((rest[0], "u16"))
    return Act(partial(start_plain_load, origin=origin), tuple(reads), unit="bulk.load")


def start_plain_load(
    warp: Any, mask: Any, target: Any, source: Any, size: Any, barrier: Any, ctas: Any = None, origin: str = "global"
) -> None:
    """Issue a copy of bytes."""
    to, start, count, signal = uniform(warp, mask, target, source, size, barrier)
    cast = None if ctas is None else uniform(warp, mask, ctas)[0]
    where = delivery(warp, to, signal, cast)
    require_sixteen(count, start, *(offset for _, offset in where.places))

    def move(task: Task) -> None:
        if origin == "global":
            addresses = np.arange(start, start + count, 8, dtype=np.uint64)
            chunks = warp.machine.memory.load(task, addresses, 8, 1).reshape(-1, 2)
        else:
            cta, offset = shared_place(warp, start)
            chunks = cta.shared.gather(task, np.arange(offset, offset + count, 16))
        for cta, offset in where.places:
            cta.shared.scatter(task, np.arange(offset, offset + count, 16), chunks)

    issue(warp, f"bulk copy of {count} bytes", [move, partial(signal_bytes, where=where, count=count)])


def store_plain(instruction: Instruction, reduction: str | None) -> Rule:
    """cp[.reduce].async.bulk to global: [to], [from], bytes [, hint]"""
    target, source, count, *_ = instruction.operands
    kind = instruction.parts[-1] if reduction is not None else ""
    if "cache_hint" in kind:
        kind = instruction.parts[-2]
    if reduction is not None and kind not in PLAIN_FORMATS:
        raise unsupported(instruction, f"reduction of .{kind}")
    reads = ((target, "u64"), (source, address_type(instruction, source)), (count, "u32"))
    return Act(partial(start_plain_store, reduction=reduction, kind=kind), reads, unit="bulk.store")


def start_plain_store(warp: Any, mask: Any, target: Any, source: Any, size: Any, reduction: str | None, kind: str) -> None:
    """Issue a copy of bytes to global memory."""
    to, start, count = uniform(warp, mask, target, source, size)
    cta, offset = shared_place(warp, start)
    require_sixteen(count, to, offset)
    held: list[Any] = []
    memory = warp.machine.memory

    def take(task: Task) -> None:
        held.append(cta.shared.gather(task, np.arange(offset, offset + count, 16)).reshape(-1))

    def put(task: Task) -> None:
        addresses = np.arange(to, to + count, 8, dtype=np.uint64)
        values = held[0]
        if reduction is not None:
            old = memory.load(task, addresses, 8, 1).reshape(-1)
            word = f"u{2 if kind.endswith('16') else int(kind[1:]) // 8}"
            values = combine(reduction, kind, old.view(word), values.view(word)).view(np.uint64)
        memory.store(task, addresses, values[None], 8)

    issue(warp, f"bulk store of {count} bytes", [take, put], group=True)


def require_sixteen(*numbers: int) -> None:
    """Sizes and addresses of plain bulk copies are multiples of 16."""
    for number in numbers:
        if number % 16:
            raise KernelFault("misaligned", f"a bulk copy with {number:#x}: wanted multiples of 16")


def commit_group(warp: Any, mask: Any) -> None:
    """Close the open group."""
    warp.bulk_groups.append(warp.bulk_open)
    warp.bulk_open = []


def wait_group(warp: Any, mask: Any, count: int, read: bool) -> None:
    """All groups but the `count` most recent are complete, or, with .read, have read their source. Being asynchronous, they may
    complete at this very moment; that is when they do if they have not yet."""
    older = warp.bulk_groups[: len(warp.bulk_groups) - count] if count else warp.bulk_groups
    tasks = [task for group in older for task in group]
    for task in tasks:
        task.advance(1 if read else 2)
    if warp.machine.observer is not None:
        warp.machine.observer.settled(warp, "bulk_read" if read else "bulk", tasks)
    if not read:
        warp.bulk_groups = warp.bulk_groups[len(warp.bulk_groups) - count :] if count else []


TABLE = {"cp.async.bulk": copy, "cp.reduce.async.bulk": copy}
