"""TMA descriptors and the boxes they move. FACTS C9 (bit layout recovered from CuTe-DSL's encoder); PTX ISA 5.5."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.global_memory import GlobalMemory
from attnspec.emulator.numerics.reductions import combine

ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 9: 8, 10: 2, 11: 1, 12: 4, 13: 4}
# Formats of 4 and 6 bits (PTX ISA 5.5.1): (elements, units of ELEMENT_BYTES that hold them in memory, and in shared memory).
NARROW = {11: (2, 1, 1), 12: (16, 2, 4), 13: (16, 3, 4)}
FORMATS = {2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 9: "f64", 10: "bf16"}
NAN_FILL = 0x7FF77FF77FF77FF7  # its low bytes; of 2 and 4 bytes as an H200 fills them
MASK = (1 << 64) - 1  # of an address
SPANS = {1: 32, 2: 64, 3: 128, 4: 128}
SWIZZLE_BITS = {0: 0, 1: 0x10, 2: 0x30, 3: 0x70}


@dataclass(frozen=True)
class TensorMap:
    """Innermost dimension first. strides: bytes, of each dimension; swizzle: 0 none, 1 32 B, 2 64 B, 3 128 B, 4 128 B by atoms
    of 32 B. nan: what lies outside the tensor is read as NaN, not as 0. narrow: of a format of 4 or 6 bits, of NARROW; sizes and
    box then count units, coordinates elements. steps: from one element of a box to the next, () if all are 1; box counts them."""

    address: int
    format: int
    element: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    nan: bool = False
    narrow: tuple[int, int, int] = (1, 1, 1)
    steps: tuple[int, ...] = ()

    @property
    def box_bytes(self) -> int:
        """Bytes of a whole box in shared memory; what lies outside the tensor counts, and padding."""
        return int(np.prod(self.box)) * self.element * self.narrow[2] // self.narrow[1]

    @property
    def moved_bytes(self) -> int:
        """Bytes that a load of a box tells its mbarrier of: without padding (CU counts so)."""
        return int(np.prod(self.box)) * self.element

    @property
    def row_bytes(self) -> int:
        """Bytes of the innermost dimension of a box in shared memory."""
        return self.box[0] * self.element * self.narrow[2] // self.narrow[1]

    def units(self, coordinates: tuple[int, ...]) -> tuple[int, ...]:
        """Coordinates in units."""
        elements, units, _ = self.narrow
        if coordinates[0] * units % elements:
            raise KernelFault("tensor-map", f"innermost coordinate {coordinates[0]} of a format of {elements} elements a unit")
        return coordinates[0] * units // elements, *coordinates[1:]


@lru_cache(maxsize=256)
def decode(raw: bytes) -> TensorMap:
    """The first 64 bytes of a descriptor."""
    words = struct.unpack("<8Q", raw[:64])
    # CuTe-DSL's encoder sets bit 1 of this word, the driver's sets none of the lowest four.
    if words[1] & 15 not in (0, 2) or not words[1]:
        raise KernelFault("tensor-map", "these 128 bytes are no TMA descriptor")
    rank = (words[1] >> 4 & 7) + 1
    format = words[1] >> 7 & 15
    if format not in ELEMENT_BYTES or rank > 5:
        raise KernelFault("tensor-map", f"TMA descriptor of rank {rank}, format {format}")
    element = ELEMENT_BYTES[format]
    low = (words[1] >> 32, words[2] & 0xFFFFFFFF, words[2] >> 32, words[3] & 0xFFFFFFFF)
    high = tuple(words[3] >> 32 + 4 * axis & 15 for axis in range(4))
    strides = tuple((lower | upper << 32) << 4 for lower, upper in zip(low, high, strict=True))
    sizes = (words[4] & 0xFFFFFFFF, words[4] >> 32, words[5] & 0xFFFFFFFF, words[5] >> 32, words[6] & 0xFFFFFFFF)
    box = (words[6] >> 56, *(words[7] >> 8 * axis & 255 for axis in range(4)))
    if words[1] >> 11 & 3:
        raise KernelFault("tensor-map", "interleaved TMA layouts are not modelled")
    # The innermost dimension has none (cuTensorMapEncodeTiled); a box holds every so many-th element of what it spans.
    steps = (1, *((words[6] >> 32 + 3 * axis & 7) + 1 for axis in range(1, 5)))
    box = tuple(-(-(size + 1) // step) for size, step in zip(box, steps, strict=True))
    narrow = NARROW.get(format, (1, 1, 1))
    atom, swizzle = words[1] >> 19 & 3, words[1] >> 13 & 3
    if atom > 1 or (atom and swizzle != 3):
        raise KernelFault("tensor-map", f"TMA swizzle {swizzle} by atoms of code {atom} is not modelled")
    return TensorMap(
        words[0],
        format,
        element,
        in_units(tuple(size + 1 for size in sizes[:rank]), narrow),
        (element, *strides)[:rank],
        in_units(box[:rank], narrow),
        4 if atom else swizzle,
        bool(words[1] >> 15 & 1),
        narrow,
        () if max(steps) == 1 else steps[:rank],
    )


def in_units(lengths: tuple[int, ...], narrow: tuple[int, int, int]) -> tuple[int, ...]:
    """Lengths whose first counts elements, in units."""
    elements, units, _ = narrow
    return lengths[0] * units // elements, *lengths[1:]


@dataclass(frozen=True)
class Window:
    """The part of a box inside the tensor. view: the memory there, as unsigned elements; inside: its slices in the box.

    Both have the outermost dimension first.
    """

    view: Any
    inside: tuple[slice, ...]


def reach(map: TensorMap, coordinates: tuple[int, ...]) -> tuple[list[int], list[int], tuple[int, ...]]:
    """Of each dimension the elements [first, last) of a box that are inside the tensor, and the step from one to the next."""
    steps = map.steps or (1,) * len(coordinates)
    first = [max(0, -(at // step)) for at, step in zip(coordinates, steps, strict=True)]
    axes = zip(coordinates, map.box, map.sizes, steps, strict=True)
    return first, [min(length, -((at - size) // step)) for at, length, size, step in axes], steps


def window(memory: GlobalMemory, map: TensorMap, coordinates: tuple[int, ...]) -> Window | None:
    """What a box at signed coordinates covers; None if all of it is outside."""
    first, last, steps = reach(map, coordinates)
    if any(low >= high for low, high in zip(first, last, strict=True)):
        return None
    strides = [stride * step for stride, step in zip(map.strides, steps, strict=True)]
    start = map.address + sum(at * stride for at, stride in zip(coordinates, map.strides, strict=True))
    start += sum(low * stride for low, stride in zip(first, strides, strict=True))
    start &= MASK  # a view may begin so far before its tensor that its address is below 0
    counts = [high - low for low, high in zip(first, last, strict=True)]
    end = start + sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True)) + map.element
    region = memory.region(start, end)
    offset = start - region.base
    base = region.units[1][offset : end - region.base].view(f"u{map.element}") if not (end - start) % map.element else None
    if base is None:
        raise KernelFault("misaligned", f"a TMA box at {start:#x} with elements of {map.element} bytes")
    view = np.lib.stride_tricks.as_strided(base, tuple(counts[::-1]), tuple(strides[::-1]))
    inside = tuple(slice(low, high) for low, high in zip(first[::-1], last[::-1], strict=True))
    return Window(view, inside)


def runs(view: Any) -> tuple[Any, int]:
    """(addresses, bytes at each) of a view: its innermost dimension is contiguous (PTX ISA, tensor maps)."""
    addresses = np.full(view.shape[:-1], view.ctypes.data, np.int64)
    for axis, (count, stride) in enumerate(zip(view.shape[:-1], view.strides[:-1], strict=True)):
        addresses += (np.arange(count) * stride).reshape(-1, *(1,) * (view.ndim - 2 - axis))
    return addresses.ravel(), view.shape[-1] * view.itemsize


def load_box(memory: GlobalMemory, map: TensorMap, coordinates: tuple[int, ...]) -> Any:
    """A box as 16-byte chunks (n, 2) of u64, elements outside the tensor 0 or NaN."""
    result = np.full(map.box[::-1], NAN_FILL % (1 << 8 * map.element) if map.nan else 0, f"u{map.element}")
    found = window(memory, map, map.units(coordinates))
    if found is not None:
        if memory.observer is not None:
            memory.observer.access(None, memory, False, *runs(found.view))
        result[found.inside] = found.view
    else:
        # An H200 reports an illegal address where a box lies outside whole and there is no memory at the map's start.
        memory.region(map.address, map.address + map.element)
    _, units, padded = map.narrow
    if padded > units:
        result = np.pad(result.reshape(-1, units), ((0, 0), (0, padded - units)))
    return result.reshape(-1).view(np.uint64).reshape(-1, 2)


def needed_chunks(map: TensorMap, coordinates: tuple[int, ...]) -> Any:
    """Which 16-byte chunks of a box hold an element inside the tensor; None if all do."""
    first, last, _ = reach(map, map.units(coordinates))
    if not any(first) and tuple(last) == map.box:
        return None
    inside = np.zeros(map.box[::-1], np.bool_)
    inside[tuple(slice(low, max(low, high)) for low, high in zip(first[::-1], last[::-1], strict=True))] = True
    return inside.reshape(-1, 16 // map.element).any(1)


def store_box(memory: GlobalMemory, map: TensorMap, coordinates: tuple[int, ...], chunks: Any, reduction: str | None) -> None:
    """Write a box's elements that are inside the tensor, or combine them with what is there."""
    if map.narrow[2] > map.narrow[1]:
        raise KernelFault("tensor-map", "a padded format is loaded only")
    found = window(memory, map, map.units(coordinates))
    if found is None:
        return
    if memory.observer is not None:
        memory.observer.access(None, memory, True, *runs(found.view), atomic=reduction is not None)
    values = np.ascontiguousarray(chunks).reshape(-1).view(f"u{map.element}").reshape(map.box[::-1])[found.inside]
    if reduction is not None:
        if map.format not in FORMATS:
            raise KernelFault("tensor-map", f"TMA reduction of format {map.format} is not modelled")
        values = combine(reduction, FORMATS[map.format], np.ascontiguousarray(found.view), values)
    found.view[...] = values


def swizzled(places: Any, swizzle: int, base: int = 0) -> Any:
    """Byte offsets with the swizzle's bits [4:7) changed by bits [7:10) of the absolute offset, less a matrix descriptor's base
    offset (an H200 does so). Swizzle 4 changes bits [5:7) by bits [7:9): atoms of 32 bytes."""
    if swizzle == 4:
        return places ^ (places >> 2 & 0x60)
    return places ^ ((places >> 7) - base << 4 & SWIZZLE_BITS[swizzle])


@lru_cache(maxsize=1024)
def box_places(offset: int, bytes: int, row: int, swizzle: int) -> Any:
    """Offsets of the 16-byte chunks of a box that starts at a shared offset. row: bytes of its innermost dimension; rows that are
    shorter than the swizzle's span lie a span apart (an H200 does so)."""
    within = np.arange(0, bytes, 16)
    if swizzle and row < SPANS[swizzle]:
        within = within // row * SPANS[swizzle] + within % row
    return swizzled(offset + within, swizzle)
