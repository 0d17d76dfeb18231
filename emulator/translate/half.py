"""Arithmetic of f16 and bf16, alone and in pairs, on their bits: computed exactly or rounded to odd in f64, then rounded once.

PTX ISA 9.7.5 (half precision), 9.7.6 (mixed precision).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attnspec.emulator.numerics import approximations, formats
from attnspec.emulator.translate import arithmetic

U16, U32 = np.uint16, np.uint32
F32, F64 = np.float32, np.float64
Array = Any
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}
SMALLEST = {"f16": 2.0**-14, "bf16": 2.0**-126}


def widen(bits: Array, kind: str) -> Array:
    """u16 as f64."""
    if kind == "bf16":
        return arithmetic.from_bf16(bits).astype(F64)
    return np.ascontiguousarray(bits).view(np.float16).astype(F64)


def narrow(x: Array, kind: str, mode: str = "rn") -> Array:
    """f64 as u16, rounded once."""
    if kind == "f16" and mode == "rn":
        bits = x.astype(np.float16).view(U16)
        return np.where(np.isnan(x), U16(0x7FFF), bits)
    return formats.encode(formats.rounded(x, kind, mode), kind).astype(U16)


def extreme(larger: bool, keeps_nan: bool, a: Array, b: Array) -> Array:
    """min or max, with -0 below +0."""
    both = (np.maximum if larger else np.minimum) if keeps_nan else (np.fmax if larger else np.fmin)
    zero = (a == 0) & (b == 0)
    sign = np.signbit(a) & np.signbit(b) if larger else np.signbit(a) | np.signbit(b)
    return np.where(zero, np.copysign(0.0, np.where(sign, -1.0, 1.0)), both(a, b))


def single(function: str) -> Any:
    """A function of the table of approximations."""
    return lambda x: getattr(approximations.current, function)(x.astype(F32)).astype(F64)


FUNCTIONS: dict[str, Any] = {
    "add": arithmetic.to_odd,
    "sub": lambda a, b: arithmetic.to_odd(a, -b),
    "mul": np.multiply,
    "fma": lambda a, b, c: arithmetic.to_odd(a * b, c),
    "min": lambda a, b: extreme(False, False, a, b),
    "max": lambda a, b: extreme(True, False, a, b),
    "min.NaN": lambda a, b: extreme(False, True, a, b),
    "max.NaN": lambda a, b: extreme(True, True, a, b),
    "ex2": single("ex2"),
    "tanh": single("tanh"),
}


def compute(name: str, kind: str, options: Sequence[str], *bits: Array) -> Array:
    """A function of u16 values. options: ftz, sat, relu."""
    if name in ("neg", "abs"):
        result = bits[0] ^ U16(0x8000) if name == "neg" else bits[0] & U16(0x7FFF)
        return np.where((bits[0] & U16(0x7FFF)) > INFINITY[kind], U16(0x7FFF), result)
    table = approximations.current.half
    if name in ("ex2", "tanh") and table is not None:
        return table(name, np.ascontiguousarray(bits[0]), kind)
    values = [widen(one, kind) for one in bits]
    if "ftz" in options:
        values = [flush(one, kind) for one in values]
    result = FUNCTIONS[name](*values)
    if "sat" in options:
        result = np.nan_to_num(np.clip(result, 0, 1))
    if "relu" in options:
        result = np.where(result <= 0, 0.0, result)
    if "ftz" in options:
        result = flush(result, kind)
    return narrow(result, kind)


def flush(x: Array, kind: str) -> Array:
    """Subnormals to zero of their sign."""
    return np.where(np.abs(x) < SMALLEST[kind], np.copysign(0.0, x), x)


def apply(name: str, type: str, options: Sequence[str], *words: Array) -> Array:
    """A function of u16 words, or of each half of u32 words (types f16x2, bf16x2)."""
    if not type.endswith("x2"):
        return compute(name, type, options, *words)
    kind = type[:-2]
    low = compute(name, kind, options, *((word & U32(0xFFFF)).astype(U16) for word in words))
    high = compute(name, kind, options, *((word >> U32(16)).astype(U16) for word in words))
    return arithmetic.join16(low, high)


def mixed(bits: Array, kind: str) -> Array:
    """A 16-bit factor or term as f32, which holds it exactly."""
    return widen(bits, kind).astype(F32)
