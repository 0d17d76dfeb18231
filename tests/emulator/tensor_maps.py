"""TMA descriptors for tests, encoded from the layout that FACTS C9 records."""

import struct
from typing import Any

FORMATS = {"int32": 2, "float16": 6, "float32": 7, "bfloat16": 10, "uint16": 1, "uint32": 2, "uint8": 0}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def encode(array: Any, box: tuple[int, ...], swizzle: int = 0, format: str | None = None) -> bytes:
    """The descriptor of a C-contiguous or strided numpy array; box and coordinates are innermost first. swizzle: bytes."""
    sizes = array.shape[::-1]
    strides = array.strides[::-1]
    assert strides[0] == array.itemsize
    rank = len(sizes)
    steps = [stride >> 4 for stride in strides[1:]] + [0] * (5 - rank)
    sizes = [size - 1 for size in sizes] + [0] * (5 - rank)
    lengths = [length - 1 for length in box] + [0] * (5 - rank)
    number = FORMATS[format or array.dtype.name]
    word1 = 2 | rank - 1 << 4 | number << 7 | SWIZZLES[swizzle] << 13 | 2 << 17 | steps[0] << 32
    words = [array.ctypes.data, word1, steps[1] | steps[2] << 32, steps[3]]
    words += [sizes[0] | sizes[1] << 32, sizes[2] | sizes[3] << 32, sizes[4] | lengths[0] << 56]
    words.append(lengths[1] | lengths[2] << 8 | lengths[3] << 16 | lengths[4] << 24)
    return struct.pack("<8Q", *words) + bytes(64)
