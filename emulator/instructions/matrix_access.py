"""ldmatrix, stmatrix, movmatrix: 8x8 tiles of 16-bit values. PTX ISA 9.7.14.5.15 to .17; FACTS C12."""

from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import LANES, Act, Rows, Rule, address_type, items_of, only, unsupported
from attnspec.emulator.machine.address import by_cta, is_shared
from attnspec.emulator.ptx.operands import Instruction

COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def access(instruction: Instruction) -> Rule:
    """ldmatrix.sync.aligned.m8n8.xN[.trans].shared.b16 {d}, [a]; stmatrix ... [a], {d}"""
    words = instruction.parts
    only(instruction, "sync", "aligned", "m8n8", *COUNTS, "trans", "shared", "shared::cta", "b16")
    count = next((COUNTS[word] for word in words if word in COUNTS), 0)
    loads = words[0] == "ldmatrix"
    values, address = instruction.operands if loads else instruction.operands[::-1]
    rows = Rows(items_of(values))
    if not count or "m8n8" not in words or len(rows.items) != count:
        raise unsupported(instruction, "this shape")
    call = partial(load if loads else store, count=count, turned="trans" in words)
    place = (address, address_type(instruction, address))
    if loads:
        return Act(call, (place,), ((rows, "u32"),), unit="ldmatrix")
    return Act(call, (place, (rows, "u32")), unit="stmatrix")


def rows_of(warp: Any, mask: Any, addresses: Any, count: int) -> tuple[Any, Any]:
    """CTA and offsets of the 8 * count rows, which lanes 0, 1, ... give."""
    if mask is not None:
        raise KernelFault("divergent", "ldmatrix and stmatrix need all 32 lanes")
    given = addresses[: 8 * count]
    if given.itemsize == 8 and (given >> np.uint64(32)).any() and not is_shared(given):
        raise KernelFault("wrong-space", f"generic address {int(given[0]):#x} is not in shared memory")
    parts = by_cta(warp, given)
    if len(parts) > 1 or parts[0][0] is not warp.cta:
        raise KernelFault("wrong-space", f"{warp.name} reads or writes a matrix in another CTA")
    return warp.cta, parts[0][2]


def load(warp: Any, mask: Any, addresses: Any, count: int, turned: bool) -> Any:
    """Register j of thread t: row t / 4 of matrix j, columns 2 (t % 4) and the next; with .trans of its transpose."""
    cta, offsets = rows_of(warp, mask, addresses, count)
    halves = np.ascontiguousarray(cta.shared.load(warp, aligned(offsets), 4, 4).T).view(np.uint16).reshape(count, 8, 8)
    if turned:
        halves = halves.transpose(0, 2, 1)
    return np.ascontiguousarray(halves).view(np.uint32).reshape(count, LANES)


def store(warp: Any, mask: Any, addresses: Any, values: Any, count: int, turned: bool) -> None:
    """The reverse of a load."""
    cta, offsets = rows_of(warp, mask, addresses, count)
    halves = np.ascontiguousarray(values).view(np.uint16).reshape(count, 8, 8)
    if turned:
        halves = halves.transpose(0, 2, 1)
    words = np.ascontiguousarray(halves).view(np.uint32).reshape(8 * count, 4)
    cta.shared.store(warp, aligned(offsets), words.T, 4)


def aligned(offsets: Any) -> Any:
    """Rows are 16 bytes at multiples of 16."""
    if (offsets % 16).any():
        raise KernelFault("misaligned", f"a matrix row at shared offset +{int(offsets[offsets % 16 != 0][0]) - 1024}")
    return offsets


def turn(instruction: Instruction) -> Rule:
    """movmatrix.sync.aligned.m8n8.trans.b16: the transpose of a matrix that a warp holds"""
    only(instruction, "sync", "aligned", "m8n8", "trans", "b16")
    target, source = instruction.operands

    def call(warp: Any, mask: Any, values: Any) -> Any:
        if mask is not None:
            raise KernelFault("divergent", "movmatrix needs all 32 lanes")
        halves = np.ascontiguousarray(values).view(np.uint16).reshape(8, 8)
        return np.ascontiguousarray(halves.T).view(np.uint32).reshape(LANES)

    return Act(call, ((source, "u32"),), ((target, "u32"),))


TABLE = {"movmatrix": turn, "ldmatrix": access, "stmatrix": access}
