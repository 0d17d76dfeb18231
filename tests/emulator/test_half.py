"""16-bit and narrower floats against rational arithmetic: every result is the nearest value of the format, ties to even."""

from fractions import Fraction

import numpy as np
import pytest

from tests.emulator.snippet import lanes

RNG = np.random.default_rng(5)
# (significand bits with the implicit one, exponent of the smallest normal, exponent field's width)
FORMATS = {"f16": (11, -14, 5), "bf16": (8, -126, 8), "e4m3": (4, -6, 4), "e5m2": (3, -14, 5), "tf32": (11, -126, 8)}


def value(code: int, name: str) -> Fraction:
    """A finite code as a rational number, from the definition of the format."""
    precision, lowest, width = FORMATS[name]
    fraction = code & (1 << precision - 1) - 1
    field = code >> precision - 1 & (1 << width) - 1
    sign = -1 if code >> precision - 1 + width & 1 else 1
    significand = fraction + (1 << precision - 1 if field else 0)
    return sign * significand * Fraction(2) ** (max(field, 1) - 1 + lowest - (precision - 1))


def nearest(exact: Fraction, name: str, most: int) -> int:
    """The code nearest to a number, by search among the magnitudes 0 to `most`; ties to the even code."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle, name) <= abs(exact) else (low, middle)
    near = min((low, high), key=lambda code: (abs(value(code, name) - abs(exact)), code & 1))
    precision, _, width = FORMATS[name]
    return near | (1 << precision - 1 + width if exact < 0 else 0)


def codes(name: str, count: int = 32) -> np.ndarray:
    """Finite codes near one, and some small ones."""
    near = {"f16": 0x3C00, "bf16": 0x3F80}[name]
    found = near + RNG.integers(-3 << 9, 3 << 9, count)
    found[:4] = RNG.integers(0, 64, 4)
    return (found | RNG.integers(0, 2, count) << 15).astype(np.uint32)


MOST = {"f16": 0x7C00, "bf16": 0x7F80}


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("name", "count"), [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)])
def test_packed_arithmetic_is_rounded_once(kind, name, count):
    halves = [(codes(kind), codes(kind)) for _ in range(count)]
    words = [low | high << np.uint32(16) for low, high in halves]
    got = lanes(f"{name}.rn.{kind}x2 %r100, {', '.join(['%r1', '%r2', '%r3'][:count])};", *words)
    for lane in range(32):
        for which in (0, 1):
            a, b, *c = (value(int(pair[which][lane]), kind) for pair in halves)
            exact = {"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + (c[0] if c else 0)}[name]
            expected = nearest(exact, kind, MOST[kind])
            found = int(got[lane]) >> 16 * which & 0xFFFF
            assert found == expected or (exact == 0 and found & 0x7FFF == 0)


def test_fma_of_bf16_rounds_once_where_f32_would_tie():
    # The product, 2^-8 + 2^-14 + 2^-15 + ..., lies just above the tie of 1 + 2^-8; a product of 2^-8 is the tie.
    for factors, expected in (((0x3F81, 0x3B81), 0x3F81), ((0x3F80, 0x3B80), 0x3F80)):
        words = [np.full(32, one, np.uint32) for one in (*factors, 0x3F80)]
        exact = value(factors[0], "bf16") * value(factors[1], "bf16") + 1
        assert nearest(exact, "bf16", MOST["bf16"]) == expected
        assert int(lanes("fma.rn.bf16x2 %r100, %r1, %r2, %r3;", *words)[0]) & 0xFFFF == expected


def test_relu_and_saturation_act_after_rounding():
    a = np.full(32, 0xC0003C00, np.uint32)  # f16: -2 and 1
    b = np.full(32, 0x3C004000, np.uint32)  # 1 and 2
    zero = np.zeros(32, np.uint32)
    assert (lanes("fma.rn.relu.f16x2 %r100, %r1, %r2, %r3;", a, b, zero) == 0x00004000).all()
    assert (lanes("fma.rn.sat.f16x2 %r100, %r1, %r2, %r3;", a, b, zero) == 0x00003C00).all()


def test_min_and_max_drop_a_nan_or_keep_it():
    a, b = np.full(32, 0x7E01BC00, np.uint32), np.full(32, 0x3C003C00, np.uint32)
    assert (lanes("max.f16x2 %r100, %r1, %r2;", a, b) == 0x3C003C00).all()
    assert (lanes("min.NaN.f16x2 %r100, %r1, %r2;", a, b) == 0x7FFFBC00).all()


def test_comparison_of_pairs_gives_a_predicate_a_half():
    code = "setp.lt.bf16x2 %p1|%p2, %r1, %r2; selp.b32 %r100, 1, 0, %p1; selp.b32 %r101, 1, 0, %p2;"
    a, b = np.full(32, 0x3F80BF80, np.uint32), np.full(32, 0x3F003F80, np.uint32)  # (-1, 1) and (1, 0.5)
    low, high = lanes(code, a, b, outputs=2)
    assert (low == 1).all() and (high == 0).all()


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_mixed_fma_takes_16_bit_factors_and_an_f32_term(kind):
    a, b = codes(kind), codes(kind)
    c = RNG.standard_normal(32).astype(np.float32)
    code = f"cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; fma.rn.f32.{kind} %r100, %h1, %h2, %r3;"
    got = lanes(code, a, b, c).view(np.float32)
    for lane in range(32):
        exact = value(int(a[lane]), kind) * value(int(b[lane]), kind) + Fraction(float(c[lane]))
        around = [np.nextafter(got[lane], np.float32(side)) for side in (-np.inf, np.inf)]
        assert all(abs(Fraction(float(got[lane])) - exact) <= abs(Fraction(float(one)) - exact) for one in around)


@pytest.mark.parametrize(("name", "most"), [("e4m3", 0x7E), ("e5m2", 0x7B)])
def test_f32_becomes_the_nearest_fp8_and_saturates(name, most):
    x = (RNG.standard_normal(32) * 2.0 ** RNG.integers(-10, 8, 32)).astype(np.float32)
    x[:6] = [1e6, -1e6, 0, -0.0, 2.0**-9, 1.5 * 2.0**-10]
    y = RNG.standard_normal(32).astype(np.float32)
    got = lanes(f"cvt.rn.satfinite.{name}x2.f32 %h1, %r1, %r2; cvt.u32.u16 %r100, %h1;", x, y)
    for lane in range(32):
        for number, source in ((int(got[lane]) >> 8, x[lane]), (int(got[lane]) & 0xFF, y[lane])):
            expected = nearest(Fraction(float(source)), name, most)
            assert number == expected or (source == 0 and number == 0x80)


def test_nan_and_infinity_as_fp8():
    x = np.resize(np.array([np.nan, np.inf, -np.inf], np.float32), 32)
    got = lanes("cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r1; cvt.u32.u16 %r100, %h1;", x)
    assert [hex(one & 0xFF) for one in got[:3].tolist()] == ["0x7f", "0x7e", "0xfe"]


@pytest.mark.parametrize(("name", "most"), [("e4m3", 0x7E), ("e5m2", 0x7B)])
def test_every_finite_fp8_code_becomes_its_f16(name, most):
    for start in range(0, 0x80, 32):
        pairs = np.arange(start, start + 32, dtype=np.uint32)
        got = lanes(f"cvt.u16.u32 %h1, %r1; cvt.rn.f16x2.{name}x2 %r100, %h1;", pairs | pairs << np.uint32(8) | np.uint32(0x80))
        for lane in range(min(32, most + 1 - start)):
            exact = value(start + lane, name)
            assert value(int(got[lane]) >> 16, "f16") == exact and value(int(got[lane]) & 0xFFFF, "f16") == -exact


def test_tf32_is_rounded_away_from_zero_at_ties():
    bits = np.array([0x3F801000, 0x3F800FFF, 0xBF801000, 0x3F803000] + 28 * [0], np.uint32)
    assert [hex(one) for one in lanes("cvt.rna.tf32.f32 %r100, %r1;", bits)[:4].tolist()] == [
        "0x3f802000", "0x3f800000", "0xbf802000", "0x3f804000",
    ]  # fmt: skip
    assert [hex(one) for one in lanes("cvt.rn.tf32.f32 %r100, %r1;", bits)[:2].tolist()] == ["0x3f800000", "0x3f800000"]


def test_rounding_to_16_bits_towards_zero_drops_bits():
    bits = RNG.integers(0x3F000000, 0x40000000, 32, dtype=np.uint32)
    assert (lanes("cvt.rz.bf16x2.f32 %r100, %r1, %r1;", bits) == (bits >> 16 | bits & 0xFFFF0000)).all()


def test_scales_are_exponents_rounded_towards_zero_or_up():
    x = np.array([1, 1.5, 2, 0.75, 2.0**-127, 1.5 * 2.0**-127, 2.0**-140, 0, 3e38, np.inf, np.nan, 2.0**-126], np.float32)
    given = np.resize(x, 32).view(np.uint32)
    down = lanes("cvt.rz.satfinite.ue8m0x2.f32 %h1, %r1, %r2; cvt.u32.u16 %r100, %h1;", given, given[::-1].copy())
    up = lanes("cvt.rp.satfinite.ue8m0x2.f32 %h1, %r1, %r2; cvt.u32.u16 %r100, %h1;", given, given[::-1].copy())
    assert (down >> 8)[:12].tolist() == [127, 127, 128, 126, 0, 0, 0, 0, 254, 254, 255, 1]
    assert (up >> 8)[:12].tolist() == [127, 128, 128, 127, 0, 1, 0, 0, 254, 254, 255, 1]
    assert ((down & 255) == (down >> 8)[::-1]).all()
    back = lanes("cvt.u16.u32 %h1, %r1; cvt.rn.bf16x2.ue8m0x2 %r100, %h1;", down)
    values = ((back & 0xFFFF) << 16).view(np.float32)
    assert (values[np.array([0, 7, 31])] == 2.0 ** ((down & 255)[np.array([0, 7, 31])].astype(float) - 127)).all()


def test_every_code_of_a_narrow_format_converts_to_itself():
    for name, bits, fraction, bias in (("e2m1", 4, 1, 1), ("e2m3", 6, 3, 1), ("e3m2", 6, 2, 3)):
        code = np.arange(32, dtype=np.uint32) % (1 << bits)
        field, low = code >> fraction & (1 << bits - 1 - fraction) - 1, code & (1 << fraction) - 1
        scale = 2.0 ** (np.maximum(field, 1).astype(float) - bias - fraction)
        value = scale * (low + np.where(field > 0, 1 << fraction, 0)) * np.where(code >> bits - 1, -1, 1)
        given = np.where(code >> bits - 1, -np.abs(value), value).astype(np.float32).view(np.uint32)
        width, register = (16, "%h1") if bits == 6 else (8, "%b1")
        declared = "" if bits == 6 else ".reg .b8 %b<2>;"
        out = lanes(f"{declared} cvt.rn.satfinite.{name}x2.f32 {register}, %r1, %r1; cvt.u32.u{width} %r100, {register};", given)
        assert (out == (code | code << (4 if bits == 4 else 8))).all()
