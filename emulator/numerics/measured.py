"""Bit-exact models of the H200's ex2, lg2, rcp, rsqrt, sqrt, sin and cos `.approx.ftz.f32`, recovered from its answers to every
mantissa, and of ex2 and tanh of 16-bit floats, from its answers to every code. tanh of f32 is in `tanh.py`.

The unit is a table and a quadratic: the mantissa's top bits choose (c0, c1, c2), the low bits x give floor(c0 + c1 x + c2 u)
with u = square(x) computed without the columns of lowest weight (Oberman and Siu, ARITH-17, describe the scheme). The tables
in special_functions.npz are exact binary fractions in units of the result's last place; doubles hold every step.
"""

import functools
import pathlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from attnspec.emulator.numerics import formats
from attnspec.emulator.numerics.approximations import EXACT
from attnspec.emulator.numerics.tanh import tanh

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


def sqrt(bits: np.ndarray) -> np.ndarray:
    _, exponent, mantissa = fields(bits)
    power = exponent - 127
    even, odd = (np.floor(interpolate(name, mantissa)).astype(np.int64) for name in ("sqrt_even", "sqrt_odd"))
    found = np.where(power & 1 == 0, even, odd) + ((power >> 1) << 23)
    found = special(found, bits, at_zero=0, at_infinity=INFINITY, negative=NAN)
    zero = exponent == 0
    return np.where(zero, np.asarray(bits) & np.uint32(0x80000000), found).astype(np.uint32)


def circular(bits: np.ndarray, quadrants: int) -> np.ndarray:
    """sin, `quadrants` quarter turns on. The argument is multiplied by f32 1 / 2 pi, towards zero (ptxas does so), and becomes a
    fixed-point number of quarter turns with 23 fraction bits; a falling quadrant takes the fraction's one's complement. The
    table's value, in units of 2**-24, is cut to f32."""
    x = np.asarray(bits).astype(np.uint32).view(np.float32).astype(np.float64)
    product = np.where(np.isfinite(x), np.abs(x), 0) * float(np.float32(0.15915493667125702))
    near = product.astype(np.float32)
    turns = np.where(near > product, np.nextafter(near, np.float32(0)), near).astype(np.float64)
    fixed = np.floor(np.fmod(turns, 1) * 2.0**25).astype(np.int64) + (quadrants << 23)
    part, fraction = fixed >> 23 & 3, fixed & 0x7FFFFF
    value = interpolate("sin", np.where(part & 1 == 1, 0x7FFFFF - fraction, fraction)) * 2.0**-24
    significand, power = np.frexp(value)
    value = np.ldexp(np.floor(np.ldexp(significand, 24)), power - 24)
    negative = (part >= 2) ^ (np.signbit(x) & (quadrants == 0))
    found = np.where(negative, -value, value).astype(np.float32).view(np.uint32)
    return np.where(np.isfinite(x), found, NAN).astype(np.uint32)


def sin(bits: np.ndarray) -> np.ndarray:
    return circular(bits, 0)


def cos(bits: np.ndarray) -> np.ndarray:
    return circular(bits, 1)


def half(name: str, codes: np.ndarray, kind: str) -> np.ndarray:
    """ex2 and tanh of f16 or bf16 codes (u16): the f32 result of ex2 cut short; tanh rounded to nearest, or the value below it
    where the unit's table is that low."""
    wide = codes.view(np.float16).astype(np.float32) if kind == "f16" else (codes.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        if name == "ex2":
            found = ex2(wide.view(np.uint32))
            if kind == "bf16":
                return (found >> 16).astype(np.uint16)
            value = found.view(np.float32).astype(np.float64)
            result = formats.encode(formats.rounded(value, "f16", "rz"), "f16").astype(np.uint16)
            return np.where(value >= 65536, np.uint16(0x7C00), result)
        result = formats.encode(formats.rounded(np.tanh(wide.astype(np.float64)), kind), kind).astype(np.uint16)
    below = np.unpackbits(tables()[f"tanh_{kind}_below"])[codes & 0x7FFF]
    return result - below.astype(np.uint16)


def special(found: np.ndarray, bits: np.ndarray, at_zero: int, at_infinity: int, negative: int) -> np.ndarray:
    """Results outside the positive normal numbers; subnormals count as zeros of their sign."""
    sign, exponent, mantissa = fields(bits)
    found = np.where(sign == 1, negative, found)
    found = np.where((exponent == 255) & (mantissa == 0) & (sign == 0), at_infinity, found)
    signed_zero = at_zero | (sign << 31 if at_zero == INFINITY else 0)
    found = np.where(exponent == 0, signed_zero, found)
    return np.where((exponent == 255) & (mantissa != 0), NAN, found).astype(np.uint32)


def of(model: Function, x: np.ndarray) -> np.ndarray:
    """A model of bits as a function of f32."""
    return model(x.astype(np.float32, copy=False).view(np.uint32)).view(np.float32)


def scaled(model: Function, after: Function) -> Function:
    """Without .ftz, as ptxas writes it: the unit knows no subnormals, so such an argument is multiplied by 2^24 before, and the
    result made good. With .ftz the caller has flushed it, and zero does not change."""

    def function(x: np.ndarray) -> np.ndarray:
        small = np.abs(x) < np.float32(2.0**-126)
        found = of(model, np.where(small, x * np.float32(2.0**24), x))
        return np.where(small, after(found), found).astype(np.float32)

    return function


def exponential(x: np.ndarray) -> np.ndarray:
    """ex2: of half the argument, squared, where the result would be subnormal."""
    small = x < -126
    found = of(ex2, np.where(small, x * np.float32(0.5), x))
    return np.where(small, found * found, found)


def reciprocal(x: np.ndarray) -> np.ndarray:
    """rcp: of the argument scaled where it, or the result, would be subnormal."""
    small, large = np.abs(x) < np.float32(2.0**-126), np.abs(x) > np.float32(2.0**126)
    factor = np.where(small, np.float32(2.0**24), np.where(large, np.float32(0.25), np.float32(1)))
    return factor * of(rcp, x * factor)


def quotient(a: np.ndarray, b: np.ndarray, full: bool) -> np.ndarray:
    """a times rcp(b), both scaled where b is subnormal or, of div.full, above 2^126 (as ptxas writes it)."""
    small, large = np.abs(b) < 2.0**-126, (np.abs(b) > 2.0**126) & full
    factor = np.where(small, np.float32(2.0**24), np.where(large, np.float32(0.25), np.float32(1)))
    return a * factor * rcp((b * factor).view(np.uint32)).view(np.float32)


MEASURED = replace(
    EXACT,
    ex2=exponential,
    lg2=scaled(lg2, lambda y: y - np.float32(24)),
    rcp=reciprocal,
    rsqrt=scaled(rsqrt, lambda y: y * np.float32(4096)),
    sqrt=scaled(sqrt, lambda y: y * np.float32(2.0**-12)),
    sin=lambda x: of(sin, x),
    cos=lambda x: of(cos, x),
    tanh=lambda x: of(tanh, x),
    half=half,
    quotient=quotient,
)
