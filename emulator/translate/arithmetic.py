"""Lane arithmetic that numpy has no operator for; every function is elementwise, whatever the shape.

Roundings are exact: a product of two f32 is exact in f64, and what a sum of f64 loses is recovered (Knuth's two-sum).
"""

from typing import Any

import numpy as np

U16, U32, U64, S32, S64 = np.uint16, np.uint32, np.uint64, np.int32, np.int64
F16, F32, F64 = np.float16, np.float32, np.float64
SMALLEST_NORMAL = F32(2.0**-126)
Array = Any


def merge(mask: Array, new: Array, old: Array) -> Array:
    """new where the mask is set, else old; an undefined old value stays undefined elsewhere, which nobody may read."""
    if old is None or new is None:
        return old if new is None else new
    return np.where(mask, new, old)


def join32(low: Array, high: Array) -> Array:
    """Two 32-bit values as one of 64."""
    return low.astype(U64) | high.astype(U64) << U64(32)


def join64(low: Array, high: Array) -> Array:
    """Two 64-bit values as one of 128."""
    return np.stack(np.broadcast_arrays(low, high), -1).view(np.complex128)[..., 0]


def join16(low: Array, high: Array) -> Array:
    """Two 16-bit values as one of 32."""
    return low.astype(U32) | high.astype(U32) << U32(16)


def join8(low: Array, high: Array) -> Array:
    """Two 8-bit values as one of 16."""
    return low.astype(U16) | high.astype(U16) << U16(8)


def shift_left(value: Array, amount: Array) -> Array:
    """Amounts at or beyond the width give 0 (PTX ISA, shl)."""
    limit = 8 * value.dtype.itemsize
    return np.left_shift(value, np.minimum(amount, amount.dtype.type(limit)).astype(value.dtype))


def shift_right(value: Array, amount: Array) -> Array:
    """Amounts at or beyond the width give 0, or the sign (PTX ISA, shr)."""
    limit = 8 * value.dtype.itemsize
    return np.right_shift(value, np.minimum(amount, amount.dtype.type(limit)).astype(value.dtype))


def divide(a: Array, b: Array) -> Array:
    """Integer division towards zero; by zero it gives all ones (an H200 does so; PTX ISA: unspecified)."""
    return np.where(b == 0, ~a.dtype.type(0), (a - np.fmod(a, b)) // b)


def remainder(a: Array, b: Array) -> Array:
    """What is left of a by that division; by zero it gives all ones too."""
    return np.where(b == 0, ~a.dtype.type(0), np.fmod(a, b))


def square_root(x: Array, mode: str) -> Array:
    """f32 sqrt in a directed mode: the square of the nearest f32 is exact in f64 and tells on which side it lies."""
    near = np.sqrt(x)
    rest = x.astype(F64) - near.astype(F64) * near
    return beside(near, rest, mode)


def quotient(a: Array, b: Array, mode: str) -> Array:
    """f32 a / b in a directed mode, by the sign of a - q b."""
    near = (a.astype(F64) / b).astype(F32)
    rest = (a.astype(F64) - near.astype(F64) * b) * np.where(b < 0, -1, 1)
    return beside(near, rest, mode)


def beside(near: Array, rest: Array, mode: str) -> Array:
    """A rounded value, or its neighbour where the exact value, `rest` away, lies on the wrong side for the mode."""
    low = (rest < 0) & ((mode == "rm") | ((mode == "rz") & (near > 0)))
    high = (rest > 0) & ((mode == "rp") | ((mode == "rz") & (near < 0)))
    result = np.where(low, np.nextafter(near, F32(-np.inf)), near)
    return np.where(high, np.nextafter(near, F32(np.inf)), result)


def high_product(a: Array, b: Array) -> Array:
    """Upper half of the product of two 32-bit integers, or of two 64-bit ones."""
    if a.dtype.itemsize == 4:
        wide = S64 if a.dtype.kind == "i" else U64
        return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)
    ua, ub = a.view(U64), b.view(U64)
    low = U64(0xFFFFFFFF)
    a0, a1, b0, b1 = ua & low, ua >> U64(32), ub & low, ub >> U64(32)
    middle = a1 * b0 + (a0 * b0 >> U64(32))
    other = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> U64(32)) + (other >> U64(32))
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, ub, U64(0)) - np.where(b < 0, ua, U64(0))
    return high.view(a.dtype)


def flush(x: Array) -> Array:
    """Subnormal f32 to zero of its sign."""
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(F32(0), x), x)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and what the rounding lost."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def fma(a: Array, b: Array, c: Array) -> Array:
    """f32 a * b + c, rounded once to nearest even."""
    product = a.astype(F64) * b
    total = product + c
    result = total.astype(F32)
    # Rounding twice errs only where the f64 sum lies midway between two f32, or in f32's subnormals.
    doubtful = (total.view(U64) & U64(0x1FFFFFFF) == U64(0x10000000)) | (np.abs(total) < 2.0**-125)
    if doubtful.any():
        result = np.where(doubtful, to_odd(product, c.astype(F64)).astype(F32), result)
    return result


def to_odd(a: Array, b: Array) -> Array:
    """f64 a + b rounded to odd: an inexact sum gets an odd last bit, so that rounding again to f32 is right."""
    total, lost = two_sum(a, b)
    bits = total.view(S64)
    away = (lost > 0) == (total > 0)
    even = (bits & 1 == 0) & (lost != 0) & np.isfinite(total)
    return np.where(even, bits + np.where(away, 1, -1), bits).view(F64)


def directed(total: Array, lost: Array, mode: str) -> Array:
    """The exact value total + lost (f64, lost below total's last bit) as f32, rounded down (rm), up (rp) or to zero (rz)."""
    result = total.astype(F32)
    rest = total - result
    sign = np.where(rest != 0, rest, lost)
    down = (sign < 0) if mode == "rm" else (sign < 0) & (result > 0)
    up = (sign > 0) if mode == "rp" else (sign > 0) & (result < 0)
    if mode != "rp":
        result = np.where(down & np.isfinite(total), np.nextafter(result, F32(-np.inf)), result)
    if mode != "rm":
        result = np.where(up & np.isfinite(total), np.nextafter(result, F32(np.inf)), result)
    return result


def add_directed(a: Array, b: Array, mode: str) -> Array:
    """f32 a + b in a rounding mode."""
    a, b = a.astype(F64), b.astype(F64)
    return signed_zero(directed(*two_sum(a, b), mode), a, b, mode)


def signed_zero(result: Array, a: Array, b: Array, mode: str) -> Array:
    """Rounded down, the sum of opposite numbers is -0 (IEEE 754, 6.3). a, b: f64."""
    if mode != "rm" or (result != 0).all():
        return result
    return np.where((a + b == 0) & ~((a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)), F32(-0.0), result)


def multiply_directed(a: Array, b: Array, mode: str) -> Array:
    """f32 a * b in a rounding mode."""
    return directed(a.astype(F64) * b, F64(0), mode)


def fma_directed(a: Array, b: Array, c: Array, mode: str) -> Array:
    """f32 a * b + c in a rounding mode."""
    product, term = a.astype(F64) * b, c.astype(F64)
    return signed_zero(directed(*two_sum(product, term), mode), product, term, mode)


def bf16(x: Array) -> Array:
    """f32 to brain float, to nearest even, as u32; NaN is 0x7FFF."""
    bits = x.view(U32)
    rounded = bits + (bits >> U32(16) & U32(1)) + U32(0x7FFF) >> U32(16)
    nan = np.isnan(x)
    return np.where(nan, U32(0x7FFF), rounded) if nan.any() else rounded


def bf16x2(high: Array, low: Array) -> Array:
    """Two f32 to two brain floats in one register."""
    return bf16(high) << U32(16) | bf16(low)


def f16x2(high: Array, low: Array) -> Array:
    """Two f32 to two halves in one register."""
    return f16(high) << U32(16) | f16(low)


def f16(x: Array) -> Array:
    """f32 to half, to nearest even, as u32; NaN is 0x7FFF."""
    bits = x.astype(F16).view(U16).astype(U32)
    nan = np.isnan(x)
    return np.where(nan, U32(0x7FFF), bits) if nan.any() else bits


def from_bf16(x: Array) -> Array:
    """u16 brain float to f32."""
    return (x.astype(U32) << U32(16)).view(F32)


def to_integer(x: Array, mode: str, dtype: Any) -> Array:
    """Float to integer: rounded by mode (rni, rzi, rmi, rpi), clamped to the range; NaN gives 0, and 2^63 in 64 bits
    (PTX ISA says 0; an H200 gives this)."""
    rounded = round_whole(x.astype(F64), mode)
    info = np.iinfo(dtype)
    inside = np.nan_to_num(np.clip(rounded, float(info.min), float(info.max)))
    # The largest 64-bit integers are not f64: those lanes are set by comparison.
    whole = np.where(inside < float(info.max), inside, 0).astype(dtype)
    whole = np.where(inside >= float(info.max), dtype(info.max), whole)
    return whole if info.bits < 64 else np.where(np.isnan(x), U64(1 << 63).astype(dtype), whole)


def round_whole(x: Array, mode: str) -> Array:
    """A float rounded to a whole number."""
    return {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x)


def float_directed(x: Array, mode: str) -> Array:
    """An integer or an f64 as f32 in a rounding mode."""
    near = x.astype(F64)
    lost = np.zeros_like(near)
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        low = (x & x.dtype.type(0xFFFF)).astype(F64)
        near, lost = two_sum((x - (x & x.dtype.type(0xFFFF))).astype(F64), low)
    return directed(near, lost, mode)


def extreme(function: Any, a: Array, b: Array) -> Array:
    """One of numpy's minima and maxima, with -0 below +0 (PTX ISA, min and max)."""
    result = function(a, b)
    if result.dtype == F32 and not result.all():
        joined = np.bitwise_and if function in (np.fmax, np.maximum) else np.bitwise_or
        result = np.where((a == 0) & (b == 0), joined(a.view(U32), b.view(U32)).view(F32), result)
    return result


def signed_like(magnitude: Array, a: Array, b: Array) -> Array:
    """A magnitude with the sign of a product a * b."""
    sign = (a.view(U32) ^ b.view(U32)) & U32(0x80000000)
    return (magnitude.view(U32) & U32(0x7FFFFFFF) | sign).view(F32)
