"""ldmatrix, stmatrix, movmatrix: tiles of 16-bit values, of bytes and of narrower values. PTX ISA 9.7.14.5.15 to .17; FACTS C12;
which thread holds which byte: CU atom/copy_traits_sm100.hpp."""

from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import LANES, Act, Rows, Rule, address_type, items_of, only, unsupported
from attnspec.emulator.machine.address import by_cta, is_shared
from attnspec.emulator.ptx.operands import Instruction

COUNTS = {"x1": 1, "x2": 2, "x4": 4}
PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}  # bits of a value; 16 of them at the start of 16 bytes


def access(instruction: Instruction) -> Rule:
    """ldmatrix.sync.aligned.m8n8.xN[.trans].shared.b16 {d}, [a]; stmatrix ... [a], {d}"""
    words = instruction.parts
    if "m8n8" not in words:
        return access_bytes(instruction)
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


def access_bytes(instruction: Instruction) -> Rule:
    """ldmatrix...m16n16.xN.trans.shared.b8 or .b8x16.PACKED, ...m8n16.xN.shared.b8x16.PACKED;
    stmatrix...m16n8.xN.trans.shared.b8"""
    words = instruction.parts
    loads = words[0] == "ldmatrix"
    shape, packed = words[3], next((word for word in words if word in PACKED), "")
    kinds = ("b8x16", packed) if packed else ("b8",)
    only(instruction, "sync", "aligned", shape, *COUNTS, "trans", "shared", "shared::cta", *kinds)
    count = next((COUNTS[word] for word in words if word in COUNTS), 0)
    known = {("m16n16", True): count <= 2, ("m8n16", True): bool(packed), ("m16n8", False): not packed}
    if not count or not known.get((shape, loads)) or ("trans" in words) != (shape != "m8n16"):
        raise unsupported(instruction, "this shape")
    values, address = instruction.operands if loads else instruction.operands[::-1]
    rows = Rows(items_of(values))
    if len(rows.items) != (2 * count if shape == "m16n16" else count):
        raise unsupported(instruction, f"{len(rows.items)} registers")
    place = (address, address_type(instruction, address))
    if not loads:
        return Act(partial(store_bytes, count=count), (place, (rows, "u32")), unit="stmatrix")
    call = partial(load_bytes, count=count, turned=shape == "m16n16", bits=PACKED.get(packed, 8))
    return Act(call, (place,), ((rows, "u32"),), unit="ldmatrix")


def load_bytes(warp: Any, mask: Any, addresses: Any, count: int, turned: bool, bits: int) -> Any:
    """Of a turned 16x16 tile registers 2 j and 2 j + 1 of thread t: rows t / 4 and t / 4 + 8 of the transpose, four columns from
    4 (t % 4) on. Of an 8x16 tile register j: row t / 4, those columns. Values of fewer bits fill the low bits of a byte."""
    rows = 16 if turned else 8
    cta, offsets = rows_of(warp, mask, addresses, rows * count // 8)
    raw = np.ascontiguousarray(cta.shared.load(warp, aligned(offsets), 4, 4).T).view(np.uint8).reshape(count * rows, 16)
    if bits < 8:
        stream = np.unpackbits(raw, axis=1, bitorder="little")[:, : 16 * bits].reshape(-1, 16, bits)
        raw = (stream << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)
    tiles = raw.reshape(count, rows, 16)
    if turned:
        tiles = tiles.transpose(0, 2, 1)
    return np.ascontiguousarray(tiles).view(np.uint32).reshape(-1, LANES)


def store_bytes(warp: Any, mask: Any, addresses: Any, values: Any, count: int) -> None:
    """Byte b of register j of thread t goes to row 8 j + 2 (t % 4) + b % 2, column t / 4 + 8 (b / 2)."""
    cta, offsets = rows_of(warp, mask, addresses, count)
    given = np.ascontiguousarray(values).view(np.uint8).reshape(count, 8, 4, 2, 2)  # register, t / 4, t % 4, b / 2, b % 2
    tiles = np.ascontiguousarray(given.transpose(0, 2, 4, 3, 1)).reshape(8 * count, 16)
    cta.shared.store(warp, aligned(offsets), tiles.view(np.uint32).T, 4)


def rows_of(warp: Any, mask: Any, addresses: Any, count: int) -> tuple[Any, Any]:
    """CTA and offsets of the 8 * count rows, which lanes 0, 1, ... give."""
    if mask is not None:
        raise KernelFault("divergent", "ldmatrix and stmatrix need all 32 lanes")
    warp.meet(orders=False)
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
