"""Bit-level functions of integers, lane by lane, whatever the shape. PTX ISA 9.7.1, 9.7.8."""

from typing import Any

import numpy as np
from attnspec.emulator.translate.arithmetic import join32

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


def byte_permute(a: Array, b: Array, selector: Array) -> Array:
    """prmt.b32 in its default mode: each nibble picks a byte of {b, a}; its top bit asks for that byte's sign."""
    wide = join32(a, b)
    result = np.zeros_like(a)
    for position in range(4):
        nibble = (selector >> U32(4 * position)).astype(U64)
        byte = wide >> (nibble & U64(7)) * U64(8) & U64(0xFF)
        signed = np.where(byte & U64(0x80), U64(0xFF), U64(0))
        byte = np.where(nibble & U64(8), signed, byte)
        result = result | byte.astype(U32) << U32(8 * position)
    return result


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """lop3.b32: bit 4a + 2b + c of the table."""
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
    return result


def extract(value: Array, start: Array, length: Array) -> Array:
    """bfe: a bit field, sign-extended for signed types (PTX ISA, bfe)."""
    width = 8 * value.dtype.itemsize
    start, length = (start & U32(0xFF)).astype(S64), (length & U32(0xFF)).astype(S64)
    unsigned = value.view(U32 if width == 32 else U64)
    kind = unsigned.dtype.type
    kept = np.minimum(length, np.maximum(width - start, 0))
    field = np.where(start < width, unsigned >> np.minimum(start, width - 1).astype(kind), kind(0))
    ones = np.where(kept >= width, ~kind(0), (kind(1) << np.minimum(kept, width - 1).astype(kind)) - kind(1))
    result = field & ones
    if value.dtype.kind == "i":
        top = np.minimum(start + length - 1, width - 1)
        sign = unsigned >> np.clip(top, 0, width - 1).astype(kind) & kind(1)
        result = np.where((sign == 1) & (length > 0), result | ~ones, result)
    return np.where(length == 0, kind(0), result).view(value.dtype)


def insert(value: Array, into: Array, start: Array, length: Array) -> Array:
    """bfi: put the low bits of a value into another."""
    kind = into.dtype.type
    width = 8 * into.dtype.itemsize
    start, length = (start & U32(0xFF)).astype(S64), (length & U32(0xFF)).astype(S64)
    ones = np.where(length >= width, ~kind(0), (kind(1) << np.minimum(length, width - 1).astype(kind)) - kind(1))
    mask = np.where(start < width, ones << np.minimum(start, width - 1).astype(kind), kind(0))
    return into & ~mask | value << np.minimum(start, width - 1).astype(kind) & mask


def leading_zeros(value: Array) -> Array:
    """clz, as u32."""
    width = 8 * value.dtype.itemsize
    found = np.full(value.shape, width, U32)
    for bit in range(width):
        found = np.where(value >> value.dtype.type(bit) & value.dtype.type(1), U32(width - 1 - bit), found)
    return found


def reverse_bits(value: Array) -> Array:
    """brev.b32"""
    result = np.zeros_like(value)
    for bit in range(8 * value.dtype.itemsize):
        result = result << value.dtype.type(1) | value >> value.dtype.type(bit) & value.dtype.type(1)
    return result


def funnel(low: Array, high: Array, amount: Array, left: bool, clamp: bool) -> Array:
    """shf: shift {high, low} and keep the upper (left) or lower 32 bits."""
    amount = np.minimum(amount, U32(32)) if clamp else amount & U32(31)
    wide = join32(low, high)
    if left:
        return (wide << amount.astype(U64) >> U64(32)).astype(U32)
    return (wide >> amount.astype(U64)).astype(U32)
