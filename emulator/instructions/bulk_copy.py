"""TMA: bulk copies of boxes and of plain bytes, loads and stores and reductions. PTX ISA 9.7.9.25, 9.7.9.27; FACTS C9."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.memory import read
from attnspec.emulator.instructions.rule import Act, Control, Rows, Rule, address_type, first_active, only, unsupported
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.machine.tensor_map import TensorMap, box_places, decode, load_box, needed_chunks, store_box
from attnspec.emulator.numerics.reductions import combine
from attnspec.emulator.ptx.operands import Address, Immediate, Instruction, Vector

WORDS = (
    "async", "bulk", "tensor", "tile", "reduce", "commit_group", "wait_group", "read", "bulk_group", "global", "shared::cta",
    "shared::cluster", "mbarrier::complete_tx::bytes", "multicast::cluster", "cta_group::1", "cta_group::2", "L2::cache_hint",
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


def copy(instruction: Instruction) -> Rule:
    """cp.async.bulk and cp.reduce.async.bulk, with or without .tensor"""
    words = instruction.parts
    if "prefetch" in words:
        return Control("nothing")
    only(instruction, *WORDS, *REDUCTIONS, *PLAIN_FORMATS, "noftz", *(f"{rank}d" for rank in range(1, 6)))
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
    if "tensor" in words:
        return load_tensor(instruction) if places[0] == "shared" else store_tensor(instruction, reduction)
    if places == ["global", "shared"]:
        return store_plain(instruction, reduction)
    return load_plain(instruction, places[1], reduction)


def coordinates_of(instruction: Instruction, operand: Any) -> Rows:
    """The coordinates inside [map, {...}]."""
    if not isinstance(operand, Address) or len(operand.parts) != 1 or not isinstance(operand.parts[0], Vector):
        raise unsupported(instruction, "wanted [map, {coordinates}]")
    return Rows(operand.parts[0].items)


def load_tensor(instruction: Instruction) -> Rule:
    """cp.async.bulk.tensor to shared: [to], [map, {coordinates}], [mbarrier] [, mask] [, hint]"""
    target, source, barrier, *rest = instruction.operands
    multicast = "multicast::cluster" in instruction.parts
    reads = [
        (target, address_type(instruction, target)),
        (source, "u64"),
        (coordinates_of(instruction, source), "s32"),
        (barrier, address_type(instruction, barrier)),
    ]
    if multicast:
        reads.append((rest[0], "u16"))
    return Act(start_load, tuple(reads), unit="tma.load")


@dataclass(frozen=True)
class Delivery:
    """Where a load goes: (CTA, offset) of the data, and of the mbarrier that hears of each."""

    places: tuple[tuple[Any, int], ...]
    barriers: tuple[tuple[Any, int], ...]


def delivery(warp: Any, target: int, barrier: int, mask: int | None) -> Delivery:
    """The destinations of a load; with a mask, the same offsets in every CTA of it."""
    place, heard = shared_place(warp, target), shared_place(warp, barrier)
    if mask is None:
        return Delivery((place,), (heard,))
    ctas = [warp.cta.cluster.cta(rank) for rank in range(16) if mask >> rank & 1]
    return Delivery(tuple((cta, place[1]) for cta in ctas), tuple((cta, heard[1]) for cta in ctas))


def map_at(warp: Any, address: int) -> TensorMap:
    """The descriptor at a generic address."""
    if address % 64:
        raise KernelFault("misaligned", f"a TMA descriptor at {address:#x}: wanted a multiple of 64")
    return decode(read(warp, "generic", np.array([address], np.uint64), 1, 64)[:, 0].tobytes())


def start_load(warp: Any, mask: Any, target: Any, source: Any, coordinates: Any, barrier: Any, ctas: Any = None) -> None:
    """Issue a box load: the box arrives, then its bytes are counted."""
    to, at, signal, *place = uniform(warp, mask, target, source, barrier, *coordinates)
    cast = None if ctas is None else uniform(warp, mask, ctas)[0]
    map = map_at(warp, at)
    require_rank(map, place)
    where = delivery(warp, to, signal, cast)
    corner = tuple(place)
    for _, offset in where.places:
        if offset % 128:
            raise KernelFault("misaligned", f"a TMA box goes to shared offset +{offset - 1024}: wanted a multiple of 128")

    def move(task: Task) -> None:
        chunks = load_box(warp.machine.memory, map, corner)
        for cta, offset in where.places:
            cta.shared.scatter(task, box_places(offset, map.box_bytes, map.row_bytes, map.swizzle), chunks)

    issue(warp, f"TMA load of box {corner}", [move, partial(signal_bytes, where=where, count=map.moved_bytes)])


def signal_bytes(task: Task, where: Delivery, count: int) -> None:
    """Tell each mbarrier that its bytes are there."""
    for cta, offset in where.barriers:
        cta.shared.require_alive(task)
        cta.mbarrier(offset).complete(task, count)


def require_rank(map: TensorMap, place: list[int]) -> None:
    """As many coordinates as the descriptor has dimensions."""
    if len(place) != len(map.sizes):
        raise KernelFault("tensor-map", f"{len(place)} coordinates for a descriptor of rank {len(map.sizes)}")


def issue(warp: Any, name: str, steps: list[Any], group: bool = False) -> None:
    """Start a task of a warp; stores belong to the warp's open bulk group."""
    task = Task(name, warp.cta, warp.at, deque(steps))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task)
    if group:
        warp.bulk_open.append(task)
    warp.machine.tasks.issue(task)


def store_tensor(instruction: Instruction, reduction: str | None) -> Rule:
    """cp.async.bulk.tensor to global: [map, {coordinates}], [from] [, hint]"""
    target, source, *_ = instruction.operands
    reads = ((target, "u64"), (coordinates_of(instruction, target), "s32"), (source, address_type(instruction, source)))
    return Act(partial(start_store, reduction=reduction), reads, unit="tma.store")


def start_store(warp: Any, mask: Any, target: Any, coordinates: Any, source: Any, reduction: str | None) -> None:
    """Issue a box store: the box is read, later written."""
    at, start, *place = uniform(warp, mask, target, source, *coordinates)
    map = map_at(warp, at)
    require_rank(map, place)
    corner = tuple(place)
    cta, offset = shared_place(warp, start)
    if offset % 128:
        raise KernelFault("misaligned", f"a TMA box comes from shared offset +{offset - 1024}: wanted a multiple of 128")
    held: list[Any] = []

    def take(task: Task) -> None:
        places = box_places(offset, map.box_bytes, map.row_bytes, map.swizzle)
        held.append(cta.shared.gather(task, places, needed_chunks(map, corner)))

    def put(task: Task) -> None:
        store_box(warp.machine.memory, map, corner, held[0], reduction)

    issue(warp, f"TMA store of box {corner}", [take, put], group=True)


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
