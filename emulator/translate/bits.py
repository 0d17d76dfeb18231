"""Bit-level functions of integers that kernels rarely use, lane by lane. PTX ISA 9.7.1."""

from typing import Any

import numpy as np

U32, U64, S64 = np.uint32, np.uint64, np.int64
ONES = U32(0xFFFFFFFF)
Array = Any


def find_nth(mask: Array, base: Array, offset: Array) -> Array:
    """The |offset|-th set bit from base on, upwards or for a negative offset downwards; 0: base itself; none: all ones."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    result = np.full(mask.shape, ONES)
    here = (mask >> (base & U32(31)) & U32(1) == 1) & (offset == 0)
    result = np.where(here, base, result)
    left = np.abs(offset.astype(S64))
    for step in range(32):
        place = base.astype(S64) + np.where(offset >= 0, step, -step)
        inside = (place >= 0) & (place < 32)
        found = inside & (mask >> np.where(inside, place, 0).astype(U32) & U32(1) == 1) & (left > 0)
        left = left - found
        result = np.where(found & (left == 0), place.astype(U32), result)
    return result


def bit_mask(start: Array, length: Array, clamp: bool) -> Array:
    """bmsk: `length` ones from bit `start`."""
    if clamp:
        start, length = (np.minimum(one, U32(32)).astype(U64) for one in (start, length))
    else:
        start, length = ((one & U32(31)).astype(U64) for one in (start, length))
    return ((U64(1) << length) - U64(1) << start).astype(U32)


def extend(value: Array, bits: Array, clamp: bool) -> Array:
    """szext: the low bits of a value, extended by its type."""
    kept = np.minimum(bits, U32(32)).astype(S64) if clamp else (bits & U32(31)).astype(S64)
    wide = value.view(U32).astype(S64) & (S64(1) << kept) - 1
    if value.dtype.kind == "i":
        wide = np.where((kept > 0) & (wide >> np.maximum(kept - 1, 0) & 1 == 1), wide - (S64(1) << kept), wide)
    return wide.astype(U32).view(value.dtype)


def part(word: Array, number: int, width: int, signed: bool) -> Array:
    """A byte or half of a word as s64."""
    value = (word >> U32(width * number)).astype(S64) & (1 << width) - 1
    return value - (value >> width - 1 << width) if signed else value


def dot4(a: Array, b: Array, c: Array, a_signed: bool, b_signed: bool) -> Array:
    """dp4a"""
    total = sum(part(a, n, 8, a_signed) * part(b, n, 8, b_signed) for n in range(4))
    return (total + c.astype(S64)).astype(U32)


def dot2(a: Array, b: Array, c: Array, a_signed: bool, b_signed: bool, upper: bool) -> Array:
    """dp2a"""
    total = sum(part(a, n, 16, a_signed) * part(b, n + 2 * upper, 8, b_signed) for n in range(2))
    return (total + c.astype(S64)).astype(U32)
