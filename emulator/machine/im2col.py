"""TMA descriptors of convolutions, and the columns of pixels that they load. PTX ISA 5.5.4; the bits and the order of the pixels
as an H200 has them (tests/emulator/silicon/im2col.py)."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.global_memory import GlobalMemory
from attnspec.emulator.machine.tensor_map import TensorMap, decode, load_box

CORNER_BITS = {3: 16, 4: 8, 5: 5}  # of a corner's coordinate, by rank; those of a corner fill 16 bits


@dataclass(frozen=True)
class Column:
    """map: of one pixel, whose box is its channels. pixels: of a column. Without channels and images, innermost first: lower and
    upper, corners of the box that a column runs through (upper counts from the last pixel); steps from a pixel to the next."""

    map: TensorMap
    pixels: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def box_bytes(self) -> int:
        """Bytes of a column in shared memory."""
        return self.pixels * self.map.box_bytes

    moved_bytes = box_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a pixel in shared memory."""
        return self.map.row_bytes

    @property
    def swizzle(self) -> int:
        """As of the map."""
        return self.map.swizzle


@lru_cache(maxsize=256)
def decode_column(raw: bytes) -> Column:
    """The first 64 bytes of a descriptor."""
    words = list(struct.unpack("<8Q", raw[:64]))
    if not words[1] & 1:
        raise KernelFault("tensor-map", "a load in im2col mode has no descriptor of that mode")
    corners, pixels, steps = words[7] & 0xFFFFFFFF, words[7] >> 32, words[6] >> 32 & 0xFFFFFF
    words[1] &= ~1
    words[6] &= ~(0xFFFFFF << 32)
    words[7] = 0
    map = decode(struct.pack("<8Q", *words))
    rank = len(map.sizes)
    if rank not in CORNER_BITS:
        raise KernelFault("tensor-map", f"an im2col descriptor of rank {rank}")
    bits = CORNER_BITS[rank]
    lower, upper = (tuple(signed(corners >> shift + bits * axis, bits) for axis in range(rank - 2)) for shift in (0, 16))
    return Column(map, pixels + 1, lower, upper, tuple((steps >> 3 * axis & 7) + 1 for axis in range(1, rank - 1)))


def signed(value: int, bits: int) -> int:
    """The low bits as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def load_column(memory: GlobalMemory, column: Column, corner: tuple[int, ...], offsets: tuple[int, ...]) -> Any:
    """A column as 16-byte chunks (n, 2) of u64. corner: channel, first pixel, image; offsets: added to every pixel's place."""
    channel, *place, image = corner
    last = [size - 1 + end for size, end in zip(column.map.sizes[1:-1], column.upper, strict=True)]
    chunks = []
    for _ in range(column.pixels):
        at = tuple(one + offset for one, offset in zip(place, offsets, strict=True))
        chunks.append(load_box(memory, column.map, (channel, *at, image)))
        for axis, step in enumerate(column.steps):
            place[axis] += step
            if place[axis] <= last[axis]:
                break
            place[axis] = column.lower[axis]
        else:
            image += 1
    return np.concatenate(chunks)
