"""TMA: boxes of tensors, loads in all modes, stores and reductions. PTX ISA 5.5, 9.7.9.27; FACTS C9."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.bulk_copy import REDUCTIONS, delivery, issue, signal_bytes, uniform
from attnspec.emulator.instructions.memory import read
from attnspec.emulator.instructions.rule import Act, Rows, Rule, address_type, only, unsupported
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.im2col import Column, decode_column, load_column
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.machine.tensor_map import TensorMap, box_places, decode, load_box, needed_chunks, store_box
from attnspec.emulator.ptx.operands import Address, Instruction, Vector

WORDS = (
    "async", "bulk", "tensor", "tile", "reduce", "bulk_group", "global", "shared::cta", "shared::cluster",
    "mbarrier::complete_tx::bytes", "multicast::cluster", "cta_group::1", "cta_group::2", "L2::cache_hint",
)  # fmt: skip
ROWS = 4  # of a gather or a scatter


def copy(instruction: Instruction) -> Rule | None:
    """cp.async.bulk.tensor and cp.reduce.async.bulk.tensor"""
    words = instruction.parts
    if "tensor" not in words:
        return None
    reduction = next((word for word in words if word in REDUCTIONS), None) if words[1] == "reduce" else None
    loads = next(word for word in words if word.split("::")[0] in ("shared", "global")).startswith("shared")
    modes = ("im2col", "tile::gather4") if loads else ("tile::scatter4",) if reduction is None else ()
    mode = next((word for word in modes if word in words), "tile")
    only(instruction, *WORDS, mode, *((reduction,) if reduction else ()), *(f"{rank}d" for rank in range(1, 6)))
    return load_tensor(instruction, mode) if loads else store_tensor(instruction, mode, reduction)


def coordinates_of(instruction: Instruction, operand: Any) -> Rows:
    """The coordinates inside [map, {...}]."""
    if not isinstance(operand, Address) or len(operand.parts) != 1 or not isinstance(operand.parts[0], Vector):
        raise unsupported(instruction, "wanted [map, {coordinates}]")
    return Rows(operand.parts[0].items)


def load_tensor(instruction: Instruction, mode: str) -> Rule:
    """cp.async.bulk.tensor to shared: [to], [map, {coordinates}], [mbarrier] [, {im2col offsets}] [, mask] [, hint]"""
    target, source, barrier, *rest = instruction.operands
    offsets, rest = (rest[:1], rest[1:]) if mode == "im2col" else ([], rest)
    if any(not isinstance(one, Vector) for one in offsets):
        raise unsupported(instruction, "wanted {offsets}")
    reads = [
        (target, address_type(instruction, target)),
        (source, "u64"),
        (coordinates_of(instruction, source), "s32"),
        (barrier, address_type(instruction, barrier)),
        *((Rows(one.items), "u16") for one in offsets if isinstance(one, Vector)),
    ]
    if "multicast::cluster" in instruction.parts:
        reads.append((rest[0], "u16"))
    pairs = "cta_group::2" in instruction.parts
    return Act(partial(start_load, mode=mode, pairs=pairs), tuple(reads), unit="tma.load")


def bytes_at(warp: Any, address: int) -> bytes:
    """What says something of the descriptor at a generic address."""
    if address % 64:
        raise KernelFault("misaligned", f"a TMA descriptor at {address:#x}: wanted a multiple of 64")
    return read(warp, "generic", np.array([address], np.uint64), 1, 64)[:, 0].tobytes()


def start_load(
    warp: Any, mask: Any, target: Any, source: Any, coordinates: Any, barrier: Any, *more: Any, mode: str, pairs: bool
) -> None:
    """Issue a load: the data arrive, then their bytes are counted. more: offsets of im2col; a mask of CTAs."""
    to, at, signal, *place = uniform(warp, mask, target, source, barrier, *coordinates)
    offsets = tuple(uniform(warp, mask, *more[0])) if mode == "im2col" else ()
    masks = more[1:] if mode == "im2col" else more
    where = delivery(warp, to, signal, uniform(warp, mask, masks[0])[0] if masks else None, pairs)
    for _, offset in where.places:
        if offset % 128:
            raise KernelFault("misaligned", f"a TMA box goes to shared offset +{offset - 1024}: wanted a multiple of 128")
    map, fetch = fetched(bytes_at(warp, at), tuple(place), offsets, mode)

    def move(task: Task) -> None:
        chunks = fetch(warp.machine.memory)
        for cta, offset in where.places:
            cta.shared.scatter(task, box_places(offset, map.box_bytes, map.row_bytes, map.swizzle), chunks)

    issue(warp, f"TMA load of box {tuple(place)}", [move, partial(signal_bytes, where=where, count=map.moved_bytes)])


def fetched(raw: bytes, place: tuple[int, ...], offsets: tuple[int, ...], mode: str) -> tuple[TensorMap | Column, Callable]:
    """What says how a load lies in shared memory, and what gives its chunks."""
    if mode == "im2col":
        column = decode_column(raw)
        require_rank(column.map, place)
        return column, partial(load_column, column=column, corner=place, offsets=offsets)
    map = decode(raw)
    if mode == "tile":
        require_rank(map, place)
        return map, partial(load_box, map=map, coordinates=place)
    row = row_of(map, place)
    corners = [(place[0], line) for line in place[1:]]
    gather = lambda memory: np.concatenate([load_box(memory, row, corner) for corner in corners])  # noqa: E731
    return replace(row, box=(row.box[0], ROWS)), gather


def row_of(map: TensorMap, place: tuple[int, ...]) -> TensorMap:
    """The map of one of the rows of a gather or scatter: its coordinates are a column and four rows."""
    if len(map.sizes) != 2 or len(place) != 1 + ROWS:
        raise KernelFault("tensor-map", f"{len(place)} coordinates for rows of a descriptor of rank {len(map.sizes)}")
    return replace(map, box=(map.box[0], 1))


def require_rank(map: TensorMap, place: tuple[int, ...]) -> None:
    """As many coordinates as the descriptor has dimensions."""
    if len(place) != len(map.sizes):
        raise KernelFault("tensor-map", f"{len(place)} coordinates for a descriptor of rank {len(map.sizes)}")


def store_tensor(instruction: Instruction, mode: str, reduction: str | None) -> Rule:
    """cp.async.bulk.tensor to global: [map, {coordinates}], [from] [, hint]"""
    target, source, *_ = instruction.operands
    reads = ((target, "u64"), (coordinates_of(instruction, target), "s32"), (source, address_type(instruction, source)))
    return Act(partial(start_store, mode=mode, reduction=reduction), reads, unit="tma.store")


def start_store(warp: Any, mask: Any, target: Any, coordinates: Any, source: Any, mode: str, reduction: str | None) -> None:
    """Issue a store: the box is read, later written."""
    at, start, *numbers = uniform(warp, mask, target, source, *coordinates)
    map, place = decode(bytes_at(warp, at)), tuple(numbers)
    if mode == "tile":
        require_rank(map, place)
        boxes = [(map, place)]
    else:
        row = row_of(map, place)
        boxes = [(row, (place[0], line)) for line in place[1:]]
        map = replace(row, box=(row.box[0], ROWS))
    cta, offset = shared_place(warp, start)
    if offset % 128:
        raise KernelFault("misaligned", f"a TMA box comes from shared offset +{offset - 1024}: wanted a multiple of 128")
    held: list[Any] = []

    def take(task: Task) -> None:
        places = box_places(offset, map.box_bytes, map.row_bytes, map.swizzle)
        needed = [needed_chunks(*box) for box in boxes]
        some = (
            None
            if all(one is None for one in needed)
            else np.concatenate(
                [
                    np.ones(box.box_bytes // 16, np.bool_) if one is None else one
                    for (box, _), one in zip(boxes, needed, strict=True)
                ]
            )
        )
        held.append(cta.shared.gather(task, places, some))

    def put(task: Task) -> None:
        for (box, corner), chunks in zip(boxes, np.split(held[0], len(boxes)), strict=True):
            store_box(warp.machine.memory, box, corner, chunks, reduction)

    issue(warp, f"TMA store of box {place}", [take, put], group=True)


TABLE = {"cp.async.bulk.tensor": copy, "cp.reduce.async.bulk": copy}
