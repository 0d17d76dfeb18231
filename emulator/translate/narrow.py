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
