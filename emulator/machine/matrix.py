"""Matrix operands of tcgen05.mma: descriptors, gathered tiles, and the sums. PTX ISA 9.7.16.3 to .5, .10; FACTS C2, C3, C4."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.tensor_map import swizzled
from attnspec.emulator.numerics import faithful, formats

Array = Any
SPANS = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}  # bytes of a swizzle's row, by the descriptor's code
SWIZZLES = {0: 0, 1: 4, 2: 3, 4: 2, 6: 1}
FORMATS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},  # the 6 and 4-bit ones are padded in shared memory: not modelled
}
ELEMENTS = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}  # bytes


@dataclass(frozen=True)
class Instruction:
    """An instruction descriptor of kind f16, tf32 or f8f6f4 (FACTS C2). a, b: formats; *_mn: that operand is MN-major."""

    m: int
    n: int
    a: str
    b: str
    result: str
    negate_a: bool
    negate_b: bool
    a_mn: bool
    b_mn: bool


@lru_cache(maxsize=256)
def decode_instruction(word: int, kind: str) -> Instruction:
    """The fields, or a fault that names the wrong one."""
    if kind not in FORMATS:
        raise KernelFault("matrix-descriptor", f"kind::{kind} is not modelled")
    if word & 0xF:
        raise KernelFault("matrix-descriptor", f"instruction descriptor {word:#x}: sparsity and saturation are not modelled")
    a, b, result = word >> 7 & 7, word >> 10 & 7, word >> 4 & 3
    allowed = FORMATS[kind]
    if a not in allowed or b not in allowed or result > 1 or (kind == "tf32" and result == 0):
        raise KernelFault("matrix-descriptor", f"instruction descriptor {word:#x}: formats {a}, {b} -> {result} for kind::{kind}")
    return Instruction(
        16 * (word >> 24 & 31),
        8 * (word >> 17 & 63),
        allowed[a],
        allowed[b],
        ("f16", "f32")[result],
        bool(word >> 13 & 1),
        bool(word >> 14 & 1),
        bool(word >> 15 & 1),
        bool(word >> 16 & 1),
    )


@dataclass(frozen=True)
class Tile:
    """A shared memory matrix descriptor (FACTS C3), in bytes. swizzle: its code in the descriptor; base: where in the swizzle's
    pattern the tile starts, in rows of 128 bytes."""

    start: int
    leading: int
    stride: int
    swizzle: int
    base: int = 0


@lru_cache(maxsize=4096)
def decode_tile(word: int) -> Tile:
    """The fields, or a fault that names the wrong one."""
    swizzle = word >> 61 & 7
    if word >> 46 & 7 != 1:
        raise KernelFault("matrix-descriptor", f"matrix descriptor {word:#x}: version bits {word >> 46 & 7}, wanted 1")
    if swizzle not in SPANS or word >> 52 & 1:
        mode = "absolute" if word >> 52 & 1 else "relative"
        raise KernelFault("matrix-descriptor", f"matrix descriptor {word:#x}: swizzle code {swizzle}, {mode} leading offset")
    return Tile((word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4, swizzle, word >> 49 & 7)


@lru_cache(maxsize=4096)
def tile_places(tile: Tile, rows: int, width: int, element: int, mn_major: bool, first: int = 0) -> Array:
    """Offsets of 16-byte chunks: (rows, width / chunk) of a K-major tile, (width, rows / chunk) of an MN-major one.

    rows: along M or N; width: along K, both in elements. first: the first row of a K-major tile that is wanted.
    """
    span = SPANS[tile.swizzle]
    chunk = 16 // element
    if mn_major:
        k = np.arange(width)[:, None]
        mn = np.arange(0, rows, chunk)[None] * element
        if tile.swizzle:
            deep = 4 if tile.swizzle == 1 else 8  # rows of k in a pattern (CU mma_sm100_desc.hpp, canonical layouts)
            places = mn % span + mn // span * tile.leading + k % deep * span + k // deep * tile.stride
        else:
            places = mn // 16 * tile.stride + k % 8 * 16 + k // 8 * tile.leading
    else:
        row = np.arange(first, first + rows)[:, None]
        k = np.arange(0, width, chunk)[None] * element
        if tile.swizzle:
            places = row % 8 * span + row // 8 * tile.stride + k
        else:
            places = row % 8 * 16 + row // 8 * tile.stride + k // 16 * tile.leading
    return swizzled(tile.start + places, SWIZZLES[tile.swizzle], tile.base)


def widen(raw: Array, format: str) -> Array:
    """Elements as f32."""
    if format == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if format == "f16":
        return raw.view(np.float16).astype(np.float32)
    if format == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if format in ("s8", "u8"):
        return raw.view(np.int8 if format == "s8" else np.uint8).astype(np.float32)
    return formats.decode(raw.view(np.uint8), format)


def from_shared(actor: Any, shared: Any, word: int, rows: int, width: int, format: str, mn_major: bool) -> Array:
    """An operand tile (rows, width) in f32."""
    return gather_tile(actor, shared, decode_tile(word), rows, width, format, mn_major)


def gather_tile(actor: Any, shared: Any, tile: Tile, rows: int, width: int, format: str, mn_major: bool, first: int = 0) -> Array:
    """An operand tile (rows, width) in f32."""
    chunks = shared.gather(actor, tile_places(tile, rows, width, ELEMENTS[format], mn_major, first))
    values = widen(chunks.reshape(len(chunks), -1), format)
    return values.T if mn_major else values


def from_tensor(actor: Any, tensor: Any, column: int, lanes: slice, width: int, format: str) -> Array:
    """An A tile (rows, width) from tensor memory: what fits in 32 bits in a column, the lowest first."""
    per_column = 4 // ELEMENTS[format]
    words = tensor.read(actor, slice(column, column + width // per_column), lanes)
    return widen(np.ascontiguousarray(words.T), format)


# How an instruction sums (FACTS C11): (A (m, k), B (n, k), accumulator (n, m) or None, form) -> (n, m), all f32.
Multiply = Callable[[Array, Array, "Array | None", faithful.Form], Array]
multiply_fast = faithful.fast
