"""Matrix operands in shared and tensor memory: descriptors and gathered tiles. PTX ISA 9.7.16.3 to .5, .10; FACTS C2, C3, C4."""

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
# Elements in 16 bytes. Narrow floats of kinds f8f6f4 and mxf8f6f4 are packed at the start of 16 bytes, the rest is padding
# (PTX ISA 5.2.3, .b4x16_p64 and .b6x16_p32); those of mxf4 and mxf4nvf4 are packed without.
PACKED = "e2m1 packed"
CHUNKS = {"tf32": 4, "f16": 8, "bf16": 8, **dict.fromkeys(("e4m3", "e5m2", "s8", "u8", "e2m3", "e3m2", "e2m1"), 16), PACKED: 32}


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
def tile_places(tile: Tile, rows: int, width: int, chunk: int, mn_major: bool, first: int = 0) -> Array:
    """Offsets of 16-byte chunks: (rows, width / chunk) of a K-major tile, (width, rows / chunk) of an MN-major one.

    rows: along M or N; width: along K; chunk: elements of 16 bytes. first: the first row of a K-major tile that is wanted.
    """
    span = SPANS[tile.swizzle]
    if mn_major:
        k = np.arange(width)[:, None]
        mn = 16 * np.arange(rows // chunk)[None]
        if tile.swizzle:
            deep = 4 if tile.swizzle == 1 else 8  # rows of k in a pattern (CU mma_sm100_desc.hpp, canonical layouts)
            places = mn % span + mn // span * tile.leading + k % deep * span + k // deep * tile.stride
        else:
            places = mn // 16 * tile.stride + k % 8 * 16 + k // 8 * tile.leading
    else:
        row = np.arange(first, first + rows)[:, None]
        k = 16 * np.arange(width // chunk)[None]
        if tile.swizzle:
            places = row % 8 * span + row // 8 * tile.stride + k
        else:
            places = row % 8 * 16 + row // 8 * tile.stride + k // 16 * tile.leading
    return swizzled(tile.start + places, SWIZZLES[tile.swizzle], tile.base)


def widen(raw: Array, format: str) -> Array:
    """Elements as f32; the last axis of raw holds whole chunks."""
    if format == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if format == "f16":
        return raw.view(np.float16).astype(np.float32)
    if format == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if format in ("s8", "u8"):
        return raw.view(np.int8 if format == "s8" else np.uint8).astype(np.float32)
    if format in ("e4m3", "e5m2"):
        return formats.decode(raw.view(np.uint8), format)
    return unpack(raw.view(np.uint8), format)


def unpack(bytes: Array, format: str) -> Array:
    """Values of 6 or 4 bits, the first in the lowest bits, of each 16 bytes (n, 16 c) as f32 (n, elements)."""
    bits = 6 if format in ("e2m3", "e3m2") else 4
    chunk = CHUNKS[format]
    streams = np.unpackbits(bytes.reshape(*bytes.shape[:-1], -1, 16), axis=-1, bitorder="little")[..., : bits * chunk]
    codes = streams.reshape(*streams.shape[:-1], chunk, bits) @ (1 << np.arange(bits))
    return formats.decode(codes, format.split()[0]).reshape(*bytes.shape[:-1], -1)


def from_shared(actor: Any, shared: Any, word: int, rows: int, width: int, format: str, mn_major: bool) -> Array:
    """An operand tile (rows, width) in f32."""
    return gather_tile(actor, shared, decode_tile(word), rows, width, format, mn_major)


def gather_tile(actor: Any, shared: Any, tile: Tile, rows: int, width: int, format: str, mn_major: bool, first: int = 0) -> Array:
    """An operand tile (rows, width) in f32."""
    chunks = shared.gather(actor, tile_places(tile, rows, width, CHUNKS[format], mn_major, first))
    values = widen(chunks.reshape(len(chunks), -1), format)
    return values.T if mn_major else values


def from_tensor(actor: Any, tensor: Any, column: int, lanes: Array, width: int, format: str) -> Array:
    """An A tile (rows, width) from tensor memory: what fits in 32 bits in a column, the lowest first."""
    if format in ("e2m3", "e3m2", "e2m1"):
        raise KernelFault("matrix-descriptor", f"A of format {format} in tensor memory is not modelled")
    count = 4 * width // CHUNKS[format]
    columns: Any = slice(column, column + count)
    if not isinstance(lanes, slice):
        columns = np.arange(column, column + count)[:, None]
    words = tensor.read(actor, columns, lanes)
    return widen(np.ascontiguousarray(words.T), format)


# How an instruction sums (FACTS C11): (A (m, k), B (n, k), accumulator (n, m) or None, form) -> (n, m), all f32.
Multiply = Callable[[Array, Array, "Array | None", faithful.Form], Array]
multiply_fast = faithful.fast
