"""tensormap.replace and tensormap.cp_fenceproxy: TMA descriptors that a kernel makes. PTX ISA 9.7.9.28, 9.7.13.18; where each
field lies: what an H200 made of one descriptor (tests/emulator/silicon/im2col.py)."""

from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.memory import read, space_of, store_lanes
from attnspec.emulator.instructions.rule import Act, Rule, address_type, first_active, only, unsupported
from attnspec.emulator.ptx.operands import Immediate, Instruction

BYTES = 128
LIVE = 64  # bytes of a descriptor that say something: CuTe-DSL's encoder and its kernels leave the others as they are
ELEMENT_CODES = {11: 7, 12: 8, 13: 11, 14: 12, 15: 13}  # PTX's numbers of tf32, tf32.ftz and the 4 and 6-bit formats
TENSOR_FLOAT = (11, 12)


def put(words: Any, word: int, first: int, count: int, value: int) -> None:
    """Set bits of a descriptor's word."""
    ones = (1 << count) - 1
    words[word] = words[word] & ~(ones << first) | (value & ones) << first


def put_address(words: Any, axis: int, value: int) -> None:
    put(words, 0, 0, 64, value)


def put_rank(words: Any, axis: int, value: int) -> None:
    """The operand is the rank less 1."""
    put(words, 1, 4, 3, value)


def put_box(words: Any, axis: int, value: int) -> None:
    put(words, *((6, 56) if axis == 0 else (7, 8 * (axis - 1))), 8, value - 1)


def put_size(words: Any, axis: int, value: int) -> None:
    put(words, 4 + axis // 2, 32 * (axis % 2), 32, value - 1)


def put_stride(words: Any, axis: int, value: int) -> None:
    """In bytes, of dimension axis + 1: the low bits next to those of the others, four more together."""
    put(words, 1 + (axis + 1) // 2, 32 * ((axis + 1) % 2), 32, value >> 4)
    put(words, 3, 32 + 4 * axis, 4, value >> 36)


def put_step(words: Any, axis: int, value: int) -> None:
    put(words, 6, 32 + 3 * axis, 3, value - 1)


def put_type(words: Any, axis: int, value: int) -> None:
    put(words, 1, 7, 4, ELEMENT_CODES.get(value, value))
    put(words, 1, 16, 1, int(value in TENSOR_FLOAT))


FIELDS = {
    "global_address": put_address,
    "rank": put_rank,
    "box_dim": put_box,
    "global_dim": put_size,
    "global_stride": put_stride,
    "element_stride": put_step,
    "elemtype": put_type,
    "interleave_layout": lambda words, axis, value: put(words, 1, 11, 2, value),
    "swizzle_mode": lambda words, axis, value: put(words, 1, 13, 2, value),
    "fill_mode": lambda words, axis, value: put(words, 1, 15, 1, value),
    "swizzle_atomicity": lambda words, axis, value: put(words, 1, 19, 2, value),
}
BY_AXIS = ("box_dim", "global_dim", "global_stride", "element_stride")


def replace(instruction: Instruction) -> Rule:
    """tensormap.replace.tile.FIELD.SPACE.b1024.TYPE [address], [axis,] value"""
    words = instruction.parts
    field = next((word for word in words if word in FIELDS), "")
    only(instruction, "replace", "tile", field, "global", "shared", "shared::cta", "b1024", "b32", "b64")
    address, *more = instruction.operands
    axis = more[0] if field in BY_AXIS else Immediate(0)
    if not field or len(more) != (2 if field in BY_AXIS else 1) or not isinstance(axis, Immediate):
        raise unsupported(instruction, "this field")
    call = partial(replace_field, field=field, axis=axis.value, space=space_of(instruction))
    return Act(call, ((address, address_type(instruction, address)), (more[-1], "u64" if words[-1] == "b64" else "u32")))


def replace_field(warp: Any, mask: Any, addresses: Any, values: Any, field: str, axis: int, space: str) -> None:
    """Each active lane changes the descriptor that it names."""
    lanes = range(len(addresses)) if mask is None else np.flatnonzero(mask).tolist()
    for lane in lanes:
        place = addresses[lane : lane + 1]
        if int(place[0]) % 64:
            raise KernelFault("misaligned", f"a TMA descriptor at {int(place[0]):#x}: wanted a multiple of 64")
        words = [int(word) for word in read(warp, space, place, 8, LIVE // 8)[:, 0]]
        FIELDS[field](words, axis, int(values[lane]))
        store_lanes(warp, None, place, np.array(words, np.uint64)[:, None], space, 8)


def copy(instruction: Instruction) -> Rule:
    """tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.SCOPE.sync.aligned [to], [from], 128: a warp does it
    once."""
    words = ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys")
    only(instruction, *words, "sync", "aligned")
    target, source, size = instruction.operands
    if not isinstance(size, Immediate) or size.value != BYTES:
        raise unsupported(instruction, "wanted 128 bytes")
    return Act(copy_descriptor, ((target, "u64"), (source, address_type(instruction, source))))


def copy_descriptor(warp: Any, mask: Any, targets: Any, sources: Any) -> None:
    """From shared to global memory."""
    lane = first_active(mask)
    words = read(warp, "shared", sources[lane : lane + 1], 8, LIVE // 8)
    store_lanes(warp, None, targets[lane : lane + 1], words, "global", 8)


TABLE = {"tensormap.replace": replace, "tensormap.cp_fenceproxy": copy}
