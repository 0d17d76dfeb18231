"""2^x of a pair of scores: on the special function unit, or emulated on the FMA pipe (FA4, software exponential).

Emulated: x = n + f with n = floor(x); 2^f by a polynomial with least relative error on [0, 1) and p(0) = 1; n is added to the
exponent bits. Adding 1.5 * 2^23 rounded down leaves n in the low bits of the sum. At -127 and below the result is exactly 0.
"""

from typing import Any

from attnspec.backends.cute.kernel.blocks import f32
from cutlass import Float32

LEAST = -127.0
MAGIC = 12582912.0  # 1.5 * 2^23
MANTISSA_BITS = 23
# Coefficients of f, f^2, ...; largest relative error 8.8e-5, 3.0e-6, 1.4e-7 (FA4, table of exp2 emulation).
POLYNOMIALS = {
    3: (0.695146143436431884765625, 0.227564394474029541015625, 0.077119089663028717041015625),
    4: (0.693042695522, 0.241291254759, 0.0522253587842, 0.0134349381151),
    5: (0.693151414394, 0.240163609385, 0.0558021888137, 0.0090145226568, 0.00186810153536),
}


def exponential(x: Any) -> tuple[Float32, Float32]:
    """2^x for both of a pair, on the special function unit."""
    low, high = f32.apart(x)
    return f32.exp2(low), f32.exp2(high)


def is_emulated(pair: int, share: float) -> bool:
    """Whether the `pair`-th pair of a row is emulated: `share` of them, spread evenly."""
    return int((pair + 1) * share) > int(pair * share)


class Emulation:
    """2^x for both of a pair, on the FMA pipe; constants are made once for all pairs, which is quicker to trace.

    keeps_nan: the sum of exponents would make some number of a NaN.
    """

    def __init__(self, degree: int, keeps_nan: bool) -> None:
        self.least, self.magic, self.zero = Float32(LEAST), f32.twice(MAGIC), f32.twice(0.0)
        self.coefficients = [f32.twice(value) for value in (1.0, *POLYNOMIALS[degree])]
        self.keeps_nan = keeps_nan

    def __call__(self, x: Any) -> tuple[Float32, Float32]:
        """2^x."""
        low, high = (f32.larger(value, self.least) for value in f32.apart(x))
        x = f32.pair(low, high)
        floored = f32.add(x, self.magic, "down")
        part = f32.subtract(x, f32.subtract(floored, self.magic))
        *rest, value = self.coefficients
        for coefficient in reversed(rest):
            value = f32.multiply_add(value, part, coefficient)
        low, high = (
            f32.times_power(one, whole, MANTISSA_BITS) for one, whole in zip(f32.apart(value), f32.apart(floored), strict=True)
        )
        return f32.apart(f32.multiply_add(x, self.zero, f32.pair(low, high))) if self.keeps_nan else (low, high)
