"""Bit-exact models of the H200's ex2, lg2, rcp and rsqrt `.approx.ftz.f32`, recovered from its answers to every mantissa.

The unit is a table and a quadratic: the mantissa's top bits choose (c0, c1, c2), the low bits x give floor(c0 + c1 x + c2 u)
with u = square(x) computed without the columns of lowest weight (Oberman and Siu, ARITH-17, describe the scheme). The tables
in special_functions.npz are exact binary fractions in units of the result's last place; doubles hold every step.
"""

import functools
import pathlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from attnspec.emulator.numerics.approximations import EXACT

TABLES = pathlib.Path(__file__).parent / "special_functions.npz"
INFINITY, NAN = 0x7F800000, 0x7FFFFFFF
Function = Callable[[np.ndarray], np.ndarray]


@functools.cache
def tables() -> dict[str, np.ndarray]:
    with np.load(TABLES) as stored:
        return dict(stored)


def truncated_square(low: np.ndarray, width: int) -> np.ndarray:
    """The square of a `width`-bit number without its partial products below 2**(2 width - 15), in units of that weight."""
    dropped = 2 * width - 15
    total = np.zeros(low.shape, np.int64)
    bits = [(low >> i) & 1 for i in range(width)]
    for i in range(width):
        if 2 * i >= dropped:
            total += bits[i] << (2 * i - dropped)
        for j in range(i + 1, width):
            if i + j + 1 >= dropped:
                total += (bits[i] & bits[j]) << (i + j + 1 - dropped)
    return total


def interpolate(name: str, mantissa: np.ndarray) -> np.ndarray:
    """c0 + c1 x + c2 u for 23-bit mantissas, before the floor."""
    table = tables()[name]
    width = 23 - (len(table).bit_length() - 1)
    low = mantissa & ((1 << width) - 1)
    rows = table[mantissa >> width]
    return rows[..., 0] + rows[..., 1] * low + rows[..., 2] * truncated_square(low, width)


def fields(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    wide = np.asarray(bits).astype(np.int64)
    return wide >> 31, (wide >> 23) & 255, wide & 0x7FFFFF


def ex2(bits: np.ndarray) -> np.ndarray:
    """The argument becomes a fixed-point number of 23 fraction bits, truncated; negative fractions by one's complement."""
    sign, exponent, mantissa = fields(bits)
    shift = np.clip(exponent - 127, -40, 8)
    whole = mantissa | 0x800000
    fixed = np.where(shift >= 0, whole << np.maximum(shift, 0), whole >> np.maximum(-shift, 0))
    fixed = np.where(exponent == 0, 0, fixed)
    flipped = np.where(fixed & 0x7FFFFF == 0, -fixed, -fixed - 1)
    fixed = np.where(sign == 1, flipped, fixed)
    power = fixed >> 23
    found = np.floor(interpolate("ex2", fixed & 0x7FFFFF)).astype(np.int64) + ((power - 1) << 23)
    found = np.where(power > 127, INFINITY, np.where(power < -126, 0, found))
    found = np.where((exponent == 255) & (mantissa == 0), np.where(sign == 1, 0, INFINITY), found)
    return np.where((exponent == 255) & (mantissa != 0), NAN, found).astype(np.uint32)


def lg2(bits: np.ndarray) -> np.ndarray:
    """Exponent plus table in units of 2**-23, cut to 13 bits below that and to 24 significant bits, toward zero."""
    _, exponent, mantissa = fields(bits)
    power = exponent - 127
    total = power * 2.0**23 + interpolate("lg2", mantissa) + np.where(power < 0, 2.0**-15, 0.0)
    total = np.where(mantissa == 0, np.where(power < 0, total - 2.0**-15, np.where(power == 0, 0.0, total)), total)
    total = np.trunc(total * 2.0**13) / 2.0**13
    significand, scale = np.frexp(total)
    cut = np.ldexp(np.trunc(np.ldexp(significand, 24)), scale - 24)
    found = (cut / 2.0**23).astype(np.float32).view(np.uint32)
    return special(found, bits, at_zero=0xFF800000, at_infinity=INFINITY, negative=NAN)


def rcp(bits: np.ndarray) -> np.ndarray:
    sign, exponent, mantissa = fields(bits)
    found = np.floor(interpolate("rcp", mantissa)).astype(np.int64) + ((127 - exponent) << 23)
    found = np.where(found < 0x800000, 0, found)  # results below the normal range are flushed
    found = np.where(exponent == 0, INFINITY, np.where(exponent == 255, 0, found)) | sign << 31
    return np.where((exponent == 255) & (mantissa != 0), NAN, found).astype(np.uint32)


def rsqrt(bits: np.ndarray) -> np.ndarray:
    _, exponent, mantissa = fields(bits)
    power = exponent - 127
    even, odd = (np.floor(interpolate(name, mantissa)).astype(np.int64) for name in ("rsqrt_even", "rsqrt_odd"))
    even = np.where(mantissa == 0, 0x3F800000, even)
    found = np.where(power & 1 == 0, even, odd) - ((power >> 1) << 23)
    return special(found, bits, at_zero=INFINITY, at_infinity=0, negative=NAN)


def special(found: np.ndarray, bits: np.ndarray, at_zero: int, at_infinity: int, negative: int) -> np.ndarray:
    """Results outside the positive normal numbers; subnormals count as zeros of their sign."""
    sign, exponent, mantissa = fields(bits)
    found = np.where(sign == 1, negative, found)
    found = np.where((exponent == 255) & (mantissa == 0) & (sign == 0), at_infinity, found)
    signed_zero = at_zero | (sign << 31 if at_zero == INFINITY else 0)
    found = np.where(exponent == 0, signed_zero, found)
    return np.where((exponent == 255) & (mantissa != 0), NAN, found).astype(np.uint32)


def of_floats(model: Function, exact: Function) -> Function:
    """A model of bits as a function of f32. The unit knows no subnormals: without .ftz those arguments and results, which
    compilers treat by scaling, are the exact function's."""

    def function(x: np.ndarray) -> np.ndarray:
        found = model(x.view(np.uint32)).view(np.float32)
        small = (np.abs(x) < 2.0**-126) & (x != 0) | (found == 0)
        return np.where(small, exact(x), found) if small.any() else found

    return function


MEASURED = replace(
    EXACT,
    ex2=of_floats(ex2, EXACT.ex2),
    lg2=of_floats(lg2, EXACT.lg2),
    rcp=of_floats(rcp, EXACT.rcp),
    rsqrt=of_floats(rsqrt, EXACT.rsqrt),
)
