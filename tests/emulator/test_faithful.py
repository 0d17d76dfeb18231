"""Tensor core sums against the same rule in unbounded integers, and against cases worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest
from attnspec.emulator.numerics.faithful import Form, multiply

RNG = np.random.default_rng(6)
PRECISION = {"bf16": (8, -126), "f16": (11, -14), "tf32": (11, -126), "e4m3": (4, -6), "e5m2": (3, -14), "f32": (24, -126)}
WIDTH = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}


def exponent(x: Fraction, name: str) -> int:
    """floor(log2 |x|), not below that of the smallest normal."""
    power = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    power -= Fraction(2) ** power > abs(x)
    return max(power, PRECISION[name][1])


def towards_zero(x: Fraction, unit: Fraction) -> Fraction:
    """The multiple of a unit next to x on the side of zero."""
    whole = abs(x) // unit
    return whole * unit if x > 0 else -whole * unit


def one_sum(a, b, held, form: Form) -> Fraction:
    """The rule for one element, in rational numbers."""
    terms = []
    for x, y in zip(a, b, strict=True):
        x, y = Fraction(float(x)), Fraction(float(y))
        if x and y:
            terms.append((x * y, exponent(x, form.a) + exponent(y, form.b)))
    if held:
        terms.append((Fraction(float(held)), exponent(Fraction(float(held)), "f32")))
    largest = max([power for _, power in terms] + [-133 if form.result == "f32" else -21])
    total = sum(towards_zero(x, Fraction(2) ** (largest - form.fraction)) for x, _ in terms)
    if not total:
        return Fraction(0)
    if form.result == "f16":
        return Fraction(float(np.float16(float(total))))
    bits = min(23, form.fraction)
    return towards_zero(total, Fraction(2) ** (exponent(total, "f32") - bits))


def drawn(kind: str, shape: tuple[int, ...], spread: int) -> np.ndarray:
    """Values of a format with exponents spread over a range; a fifth of them 0."""
    precision = PRECISION[kind][0]
    significand = RNG.integers(1 << precision - 1, 1 << precision, shape) * RNG.choice([-1, 1], shape)
    result = np.ldexp(significand.astype(np.float64), RNG.integers(-spread, spread + 1, shape) - precision)
    return np.where(RNG.random(shape) < 0.2, 0, result).astype(np.float32)


def cast(kind: str, shape: tuple[int, ...], spread: int) -> np.ndarray:
    """Drawn values that the format holds."""
    values = drawn(kind, shape, spread)
    lowest = PRECISION[kind][1] - PRECISION[kind][0] + 1
    return np.ldexp(np.trunc(np.ldexp(values.astype(np.float64), -lowest)), lowest).astype(np.float32)


@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize("spread", [1, 6, 14])
@pytest.mark.parametrize("kind", list(WIDTH))
def test_sums_equal_the_rule_in_rational_numbers(kind, spread, result):
    if result == "f16" and kind in ("bf16", "tf32"):
        pytest.skip("no such instruction")
    spread = min(spread, 5) if kind == "e4m3" or result == "f16" else spread
    form = Form(kind, kind, result, 13 if kind == "e4m3" else 25)
    a, b = cast(kind, (6, WIDTH[kind]), spread), cast(kind, (5, WIDTH[kind]), spread)
    held = drawn("f16" if result == "f16" else "f32", (5, 6), spread)
    got = multiply(a, b, held, form)
    for n in range(5):
        for m in range(6):
            assert Fraction(float(got[n, m])) == one_sum(a[m], b[n], held[n, m], form)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_cancellation_leaves_what_alignment_kept(kind):
    # The largest two products cancel; of the rest only bits above the cut are left.
    a, b = cast(kind, (8, 16), 8), cast(kind, (8, 16), 8)
    a[:, 0], b[:, 0], a[:, 1], b[:, 1] = 256, 128, -256, 128
    got = multiply(a, b, None, Form(kind, kind))
    for n in range(8):
        for m in range(8):
            assert Fraction(float(got[n, m])) == one_sum(a[m], b[n], 0, Form(kind, kind))


def sum_of(products: list[tuple[float, float]], held: float | None = None) -> float:
    """One element."""
    a, b = np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
    for k, (x, y) in enumerate(products):
        a[0, k], b[0, k] = x, y
    return float(multiply(a, b, None if held is None else np.full((1, 1), held, np.float32), Form("bf16", "bf16"))[0, 0])


def test_sums_are_cut_towards_zero():
    assert sum_of([(1, 1), (2.0**-12, 2.0**-12)]) == 1  # 1 + 2^-24 would round to even, also 1
    assert sum_of([(1, 1)] + 3 * [(2.0**-12, 2.0**-13)]) == 1  # 3 * 2^-25 would round up
    assert sum_of([(-1, 1)] + 3 * [(2.0**-12, -(2.0**-13))]) == -1


def test_two_bits_more_than_f32_are_summed():
    assert sum_of([(1, 1)] + 4 * [(2.0**-12, 2.0**-13)]) == 1 + 2.0**-23  # four times 2^-25
    assert sum_of([(1, 1)] + 8 * [(2.0**-13, 2.0**-13)]) == 1  # eight times 2^-26: each is cut to nothing


def test_the_exponent_of_a_product_is_not_renormalised():
    # 1.5 * 1.5 = 2.25 counts as exponent 0: 2^-25 is kept.
    assert sum_of([(1.5, 1.5), (-1.5, 1.5), (2.0**-12, 2.0**-13)]) == 2.0**-25
    # An accumulator of 2.25 has exponent 1: it is not.
    assert sum_of([(-1.5, 1.5), (2.0**-12, 2.0**-13)], 2.25) == 0


def test_nan_is_canonical_and_infinities_stay():
    assert np.float32(sum_of([(np.inf, 0)])).view(np.uint32) & 0x7FFFFFFF == 0x7FFFFFFF
    got = multiply(np.full((1, 16), np.inf, np.float32), np.ones((1, 16), np.float32), None, Form("bf16", "bf16"))
    assert got[0, 0] == np.inf
    assert np.isnan(sum_of([(np.inf, 1), (-np.inf, 1)]))
    assert sum_of([(1, 1)], -np.inf) == -np.inf


def test_subnormal_factors_count():
    assert sum_of([(2.0**-133, 2.0**4)]) == 2.0**-129
