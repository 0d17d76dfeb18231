"""Sums of the tensor core, bit for bit by the public model of it (FACTS C11); an H200's wgmma agrees.

One instruction of the hardware adds a group of exact products and the accumulator at once: all are aligned to the largest
exponent among them, each is cut (towards zero) to a number of fractional bits, the cut values are added exactly, and the sum is
cut to f32 (or rounded to nearest for an f16 result). A product's exponent is the sum of its factors' exponents, not renormalised.
Products of K 16-bit values form one group; tf32 has groups of 8 and fp8 of 32, which is K of the PTX instruction in each case.
Where fewer than 23 fractional bits are kept (fp8 on Hopper), the sum is cut to as many.

A zero product or accumulator has no exponent; a sum that is too large becomes infinite; an exact zero is +0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.emulator.numerics.formats import FORMATS, exponent_of, rounded

Array = Any
NOTHING = -(1 << 20)  # the exponent of zero: below any other
FLOORS = {"f32": -133, "f16": -21}  # least exponent that terms are aligned to, by the result
CANONICAL_NAN = np.array([0x7FFFFFFF], np.uint32).view(np.float32)[0]


@dataclass(frozen=True)
class Form:
    """a, b: formats of the factors; result: f32 or f16; fraction: bits kept below the largest exponent."""

    a: str
    b: str
    result: str = "f32"
    fraction: int = 25


def split(x: Array, name: str) -> tuple[Array, Array]:
    """Finite values of a format as integer significands and exponents: significand * 2^(exponent - precision + 1)."""
    format = FORMATS[name]
    wide = x.astype(np.float64)
    exponent = exponent_of(wide, format)
    significand = np.ldexp(wide, format.precision - 1 - exponent).astype(np.int64)
    return significand, np.where(significand == 0, NOTHING, exponent).astype(np.int64)


def cut(significand: Array, shift: Array) -> Array:
    """significand * 2^shift towards zero."""
    magnitude = np.abs(significand)
    left = magnitude << np.clip(shift, 0, 30)
    return np.sign(significand) * np.where(shift >= 0, left, magnitude >> np.clip(-shift, 0, 63))


def multiply(a: Array, b: Array, accumulator: Array | None, form: Form) -> Array:
    """a (m, k) times b (n, k) plus an accumulator (n, m), all f32, as f32 (n, m). k: of one instruction."""
    special = None
    if not (np.isfinite(a).all() and np.isfinite(b).all() and (accumulator is None or np.isfinite(accumulator).all())):
        special = specials(a, b, accumulator)
        a, b = (np.where(np.isfinite(one), one, 0) for one in (a, b))
        accumulator = None if accumulator is None else np.where(np.isfinite(accumulator), accumulator, 0)
    result = finite(a, b, accumulator, form)
    return result if special is None else np.where(np.isfinite(special), result, special)


def finite(a: Array, b: Array, accumulator: Array | None, form: Form) -> Array:
    """The sum where all terms are finite."""
    (a_values, a_powers), (b_values, b_powers) = split(a, form.a), split(b, form.b)
    held, power = split(np.zeros((1, 1), np.float32) if accumulator is None else accumulator, "f32")
    largest = np.maximum(np.full((len(b), len(a)), FLOORS[form.result], np.int64), power)
    for k in range(a.shape[1]):
        largest = np.maximum(largest, b_powers[:, k, None] + a_powers[None, :, k])
    total = cut(held, power - largest + form.fraction - 23)
    # A product has this many fractional bits.
    below = FORMATS[form.a].precision + FORMATS[form.b].precision - 2
    for k in range(a.shape[1]):
        powers = b_powers[:, k, None] + a_powers[None, :, k]
        total = total + cut(b_values[:, k, None] * a_values[None, :, k], powers - largest + form.fraction - below)
    # The sum has at most 34 bits, so it is exact in f64.
    exact = np.ldexp(total.astype(np.float64), largest - form.fraction)
    if form.result == "f16":
        return rounded(exact, "f16").astype(np.float32)
    if form.fraction < 23:
        fraction, power = np.frexp(exact)
        exact = np.ldexp(np.trunc(np.ldexp(fraction, form.fraction + 1)), power - form.fraction - 1)
    result = rounded(exact, "f32", "rz")
    return np.where(np.abs(exact) >= 2.0**128, np.copysign(np.inf, exact), result).astype(np.float32)


def specials(a: Array, b: Array, accumulator: Array | None) -> Array:
    """Infinite and NaN where the sum is; 0 elsewhere."""

    def reduced(x: Array) -> Array:
        return np.where(np.isfinite(x), np.sign(x), x).astype(np.float64)

    with np.errstate(invalid="ignore"):
        total = (reduced(b)[:, None] * reduced(a)[None]).sum(-1)
        if accumulator is not None:
            total = total + np.where(np.isfinite(accumulator), 0, accumulator)
    return np.where(np.isnan(total), CANONICAL_NAN, np.where(np.isinf(total), total, 0)).astype(np.float32)


def fast(a: Array, b: Array, accumulator: Array | None, form: Form) -> Array:
    """By the BLAS, in f32: not the tensor core's bits."""
    product = np.dot(b, a.T)
    return product if accumulator is None else product + accumulator


def whole(a: Array, b: Array, accumulator: Array | None, saturates: bool) -> Array:
    """Products of 8-bit integers (held in f32, where 32 of them sum exactly) plus s32 (n, m): modulo 2^32, or clamped."""
    total = np.dot(b, a.T).astype(np.int64)
    if accumulator is not None:
        total = total + accumulator
    return (np.clip(total, -(2**31), 2**31 - 1) if saturates else total).astype(np.int32)
