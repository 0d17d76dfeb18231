"""Narrow floating-point formats: rounding to them, and their bits. PTX ISA 5.2.3, 9.7.9.22 (cvt); IEEE 754.

Values travel as f64, in which every format here, and every product of two of its values, is exact.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Format:
    """precision: bits of the significand, the implicit one too; lowest: exponent of the smallest normal; most: largest finite.

    bits: width; infinite: whether it has infinities; nan: the bits of its NaN, None if it has none.
    """

    bits: int
    precision: int
    lowest: int
    most: float
    infinite: bool
    nan: int | None


FORMATS = {
    "f32": Format(32, 24, -126, float(np.finfo(np.float32).max), True, 0x7FFFFFFF),
    "tf32": Format(32, 11, -126, (2 - 2.0**-10) * 2.0**127, True, 0x7FFFFFFF),
    "bf16": Format(16, 8, -126, (2 - 2.0**-7) * 2.0**127, True, 0x7FFF),
    "f16": Format(16, 11, -14, 65504.0, True, 0x7FFF),
    "e5m2": Format(8, 3, -14, 57344.0, True, 0x7F),
    "e4m3": Format(8, 4, -6, 448.0, False, 0x7F),
    "e3m2": Format(6, 3, -2, 28.0, False, None),
    "e2m3": Format(6, 4, 0, 7.5, False, None),
    "e2m1": Format(4, 2, 0, 6.0, False, None),
}
WHOLE = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def exponent_of(x: Array, format: Format) -> Array:
    """Exponents of f64 values in a format: subnormals and zero have that of the smallest normal."""
    fraction, exponent = np.frexp(x)
    return np.where(fraction == 0, format.lowest, np.maximum(exponent - 1, format.lowest))


def rounded(x: Array, name: str, mode: str = "rn", saturate: bool = False) -> Array:
    """f64 values rounded once to a format, still as f64. saturate: what is too large becomes the largest finite value."""
    format = FORMATS[name]
    unit = exponent_of(x, format) - (format.precision - 1)
    result = np.ldexp(WHOLE[mode](np.ldexp(x, -unit)), unit)
    result = np.where(np.isfinite(x), result, x)
    over = np.abs(result) > format.most
    if over.any():
        inward = {"rz": over, "rm": over & (result > 0), "rp": over & (result < 0)}.get(mode, np.zeros_like(over))
        inward = over if saturate or not format.infinite else inward & np.isfinite(x)
        result = np.where(over, np.copysign(np.where(inward, format.most, np.inf), result), result)
    return result


def encode(x: Array, name: str) -> Array:
    """Bits, as u32, of f64 values that are of the format already. A NaN in a format without one is its largest value."""
    format = FORMATS[name]
    fraction = format.precision - 1
    exponent = exponent_of(x, format)
    finite = np.isfinite(x)
    significand = np.ldexp(np.where(finite, np.abs(x), 0), fraction - exponent).astype(np.int64)
    field = np.where(finite, exponent - format.lowest, 0).astype(np.int64)
    narrow = 19 if name == "tf32" else format.bits
    infinity = ((1 << narrow - 1 - fraction) - 1) << fraction
    result = np.where(finite, (field << fraction) + significand, infinity)
    result = result | np.signbit(x).astype(np.int64) << narrow - 1
    if name == "tf32":
        result = result << 13
    nan = (1 << format.bits - 1) - 1 if format.nan is None else format.nan
    return np.where(np.isnan(x), nan, result).astype(np.uint32)


@lru_cache(maxsize=16)
def table(name: str) -> Array:
    """The values of all codes of a format of at most 16 bits, as f32."""
    format = FORMATS[name]
    fraction = format.precision - 1
    code = np.arange(1 << format.bits)
    sign = np.where(code >> format.bits - 1, -1.0, 1.0)
    field = code >> fraction & (1 << format.bits - 1 - fraction) - 1
    low = code & (1 << fraction) - 1
    exponent = np.maximum(field, 1) - 1 + format.lowest - fraction
    values = sign * np.ldexp((low + np.where(field > 0, 1 << fraction, 0)).astype(np.float64), exponent)
    if format.infinite:
        top = field == (1 << format.bits - 1 - fraction) - 1
        values = np.where(top, np.where(low == 0, sign * np.inf, np.nan), values)
    elif format.nan is not None:
        values = np.where(code & (1 << format.bits - 1) - 1 == format.nan, np.nan, values)
    return values.astype(np.float32)


def decode(bits: Array, name: str) -> Array:
    """f32 values of codes."""
    return table(name)[bits]
