"""Conversions to and from narrow floats, lane by lane. PTX ISA 9.7.9.22 (cvt); roundings in numerics/formats.py."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attnspec.emulator.numerics import formats
from attnspec.emulator.translate.arithmetic import join16
from attnspec.emulator.translate.half import narrow, widen

U16, U32 = np.uint16, np.uint32
Array = Any


def changed(x: Array, to: str, mode: str, options: Sequence[str]) -> Array:
    """f64 rounded to a format. options: relu (what is negative becomes 0), satfinite."""
    x = x.astype(np.float64)
    if "relu" in options:
        x = np.where(x <= 0, 0.0, x)
    return formats.rounded(x, to, mode, saturate="satfinite" in options)


def code(x: Array, to: str, mode: str, options: Sequence[str]) -> Array:
    """f64 as the bits of a format, u32. With satfinite, infinities are the largest finite value too."""
    result = changed(x, to, mode, options)
    if "satfinite" in options:
        most = formats.FORMATS[to].most
        result = np.clip(result, -most, most)
    return formats.encode(result, to)


def pair_of_f32(high: Array, low: Array, to: str, options: Sequence[str]) -> Array:
    """Two f32 as two codes."""
    width = 4 if to == "e2m1" else 8
    return code(high, to, "rn", options) << U32(width) | code(low, to, "rn", options)


def pair_of_halves(word: Array, source: str, to: str, options: Sequence[str]) -> Array:
    """Two f16 or bf16 as two codes."""
    low, high = widen((word & U32(0xFFFF)).astype(U16), source), widen((word >> U32(16)).astype(U16), source)
    return pair_of_f32(high, low, to, options)


def pair_to_f16(word: Array, source: str, options: Sequence[str]) -> Array:
    """Two codes as two f16."""
    width = 4 if source == "e2m1" else 8
    ones = (1 << formats.FORMATS[source].bits) - 1
    values = [formats.decode(word >> word.dtype.type(shift) & word.dtype.type(ones), source) for shift in (0, width)]
    return join16(*(code(value, "f16", "rn", options).astype(U16) for value in values))


def scale(x: Array, mode: str) -> Array:
    """f32 as the exponent of a power of two, u16: towards zero, or up. NaN is 255; what is too large is 254 (PTX ISA says so with
    .satfinite, which it makes the only choice); zero and what is too small are 0, 2^-127."""
    bits = x.view(U32)
    exponent, mantissa = bits >> U32(23) & U32(255), bits & U32(0x7FFFFF)
    # A subnormal above 2^-127 rounds up to 2^-126.
    up = (mantissa > np.where(exponent == 0, U32(0x400000), U32(0))) if mode == "rp" else np.zeros(x.shape, np.bool_)
    result = np.minimum(exponent + up, U32(254))
    result = np.where(np.signbit(x), U32(0), result)
    return np.where(np.isnan(x), U32(255), result).astype(U16)


def pair_of_scales(high: Array, low: Array, mode: str) -> Array:
    """Two f32 as two powers of two."""
    return scale(high, mode) << U16(8) | scale(low, mode)


def scales_of_pair(word: Array, mode: str) -> Array:
    """Two bf16 as two powers of two."""
    return pair_of_scales((word & U32(0xFFFF0000)).view(np.float32), (word << U32(16)).view(np.float32), mode)


def pair_to_bf16(word: Array) -> Array:
    """Two powers of two as two bf16: 255 is NaN, 0 the subnormal 2^-127."""
    values = []
    for shift in (0, 8):
        exponent = (word >> U16(shift) & U16(255)).astype(U16)
        value = np.where(exponent == 0, U16(0x40), exponent << U16(7))
        values.append(np.where(exponent == 255, U16(0x7FFF), value))
    return join16(*values)


def to_tf32(x: Array, mode: str, options: Sequence[str]) -> Array:
    """f32 as tf32, in the upper 19 bits of a word."""
    return code(x, "tf32", mode, options)


def two(high: Array, low: Array, to: str, mode: str, options: Sequence[str]) -> Array:
    """Two f32 as two 16-bit floats."""
    return code(high, to, mode, options) << U32(16) | code(low, to, mode, options)


def one(x: Array, source: str, to: str, mode: str, options: Sequence[str]) -> Array:
    """One 16-bit float of an f32 or of the other 16-bit format."""
    wide = x.astype(np.float64) if source == "f32" else widen(x, source)
    if not options:
        return narrow(wide, to, mode)
    return code(wide, to, mode, options).astype(U16)
