"""2^x of a pair of scores: on the special function unit, or emulated on the FMA pipe (FA4, software exponential).

Emulated: x = n + f with n = floor(x); 2^f by a polynomial with least relative error on [0, 1) and p(0) = 1; n is added to the
exponent bits. Adding 1.5 * 2^23 rounded down leaves n in the low bits of the sum. Below -127 the result is exactly 0.
"""

from typing import Any

import cutlass.cute as cute
from cutlass import Float32, Int32

LEAST = -127.0
MAGIC = 12582912.0  # 1.5 * 2^23
MANTISSA_BITS = 23
# Coefficients of f, f^2, ...; largest relative error 8.8e-5, 3.0e-6, 1.4e-7 (FA4, table of exp2 emulation).
POLYNOMIALS = {
    3: (0.695146143436431884765625, 0.227564394474029541015625, 0.077119089663028717041015625),
    4: (0.693042695522, 0.241291254759, 0.0522253587842, 0.0134349381151),
    5: (0.693151414394, 0.240163609385, 0.0558021888137, 0.0090145226568, 0.00186810153536),
}


def exponential(x: tuple[Any, Any], is_emulated: bool, degree: int) -> tuple[Float32, Float32]:
    """2^x for both of a pair."""
    if is_emulated:
        return _emulated(x, degree)
    return cute.math.exp2(x[0], fastmath=True), cute.math.exp2(x[1], fastmath=True)


def is_emulated(pair: int, share: float) -> bool:
    """Whether the `pair`-th pair of a row is emulated: `share` of them, spread evenly."""
    return int((pair + 1) * share) > int(pair * share)


def _emulated(x: tuple[Any, Any], degree: int) -> tuple[Float32, Float32]:
    low, high = (cute.arch.fmax(value, LEAST, nan=True) for value in x)
    magic = (Float32(MAGIC), Float32(MAGIC))
    floored = cute.arch.add_packed_f32x2((low, high), magic, rnd="rm")
    whole = cute.arch.sub_packed_f32x2(floored, magic)
    part = cute.arch.sub_packed_f32x2((low, high), whole)
    *rest, last = (Float32(value) for value in (1.0, *POLYNOMIALS[degree]))
    value = (last, last)
    for coefficient in reversed(rest):
        value = cute.arch.fma_packed_f32x2(value, part, (coefficient, coefficient))
    return _scaled(value[0], floored[0]), _scaled(value[1], floored[1])


def _scaled(value: Float32, floored: Float32) -> Float32:
    """value * 2^n, n in the low bits of `floored`."""
    return (value.bitcast(Int32) + (floored.bitcast(Int32) << Int32(MANTISSA_BITS))).bitcast(Float32)
