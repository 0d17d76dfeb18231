"""Integer and float arithmetic, lane by lane, against independent arithmetic of wider types."""

from fractions import Fraction

import numpy as np
import pytest

from tests.emulator.snippet import lanes

RNG = np.random.default_rng(0)
U32 = RNG.integers(0, 2**32, 32, dtype=np.uint32)
V32 = RNG.integers(0, 2**32, 32, dtype=np.uint32)
W32 = RNG.integers(0, 2**32, 32, dtype=np.uint32)
SMALL = RNG.integers(0, 40, 32, dtype=np.uint32)
S32, T32 = U32.view(np.int32), V32.view(np.int32)
F32 = (RNG.standard_normal(32) * 10.0 ** RNG.integers(-3, 4, 32)).astype(np.float32)
G32 = RNG.standard_normal(32).astype(np.float32)
H32 = (RNG.standard_normal(32) * 1e-3).astype(np.float32)


def ints(values, bits=32):
    """Python integers modulo 2^bits."""
    return np.array([int(value) % (1 << bits) for value in values], f"u{bits // 8}")


def truncated(a, b):
    """Division towards zero."""
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


@pytest.mark.parametrize(
    ("operation", "inputs", "expected"),
    [
        ("add.s32 %r100, %r1, %r2;", (U32, V32), [int(a) + int(b) for a, b in zip(U32, V32)]),
        ("sub.s32 %r100, %r1, %r2;", (U32, V32), [int(a) - int(b) for a, b in zip(U32, V32)]),
        ("mul.lo.s32 %r100, %r1, %r2;", (U32, V32), [int(a) * int(b) for a, b in zip(U32, V32)]),
        ("mul.hi.u32 %r100, %r1, %r2;", (U32, V32), [int(a) * int(b) >> 32 for a, b in zip(U32, V32)]),
        ("mul.hi.s32 %r100, %r1, %r2;", (U32, V32), [int(a) * int(b) >> 32 for a, b in zip(S32, T32)]),
        ("mad.lo.s32 %r100, %r1, %r2, %r3;", (U32, V32, W32), [int(a) * int(b) + int(c) for a, b, c in zip(U32, V32, W32)]),
        ("div.s32 %r100, %r1, %r2;", (U32, V32), [truncated(a, b) for a, b in zip(S32, T32)]),
        ("rem.s32 %r100, %r1, %r2;", (U32, V32), [int(a) - int(b) * truncated(a, b) for a, b in zip(S32, T32)]),
        ("div.u32 %r100, %r1, %r2;", (U32, V32), [int(a) // int(b) for a, b in zip(U32, V32)]),
        ("min.s32 %r100, %r1, %r2;", (U32, V32), [min(a, b) for a, b in zip(S32, T32)]),
        ("min.relu.s32 %r100, %r1, %r2;", (U32, V32), [max(0, min(a, b)) for a, b in zip(S32, T32)]),
        ("max.u32 %r100, %r1, %r2;", (U32, V32), [max(a, b) for a, b in zip(U32, V32)]),
        ("shl.b32 %r100, %r1, %r2;", (U32, SMALL), [int(a) << int(n) if n < 32 else 0 for a, n in zip(U32, SMALL)]),
        ("shr.u32 %r100, %r1, %r2;", (U32, SMALL), [int(a) >> int(n) for a, n in zip(U32, SMALL)]),
        ("shr.s32 %r100, %r1, %r2;", (U32, SMALL), [int(a) >> int(n) for a, n in zip(S32, SMALL)]),
        ("xor.b32 %r100, %r1, %r2;", (U32, V32), [int(a) ^ int(b) for a, b in zip(U32, V32)]),
        ("not.b32 %r100, %r1;", (U32,), [~int(a) for a in U32]),
        ("neg.s32 %r100, %r1;", (U32,), [-int(a) for a in U32]),
        ("popc.b32 %r100, %r1;", (U32,), [int(a).bit_count() for a in U32]),
        ("clz.b32 %r100, %r1;", (SMALL,), [32 - int(a).bit_length() for a in SMALL]),
        ("brev.b32 %r100, %r1;", (U32,), [int(f"{int(a):032b}"[::-1], 2) for a in U32]),
        ("bfe.u32 %r100, %r1, 7, 11;", (U32,), [int(a) >> 7 & 0x7FF for a in U32]),
        ("bfe.s32 %r100, %r1, 24, 8;", (U32,), [int(a) >> 24 for a in S32]),
        ("bfi.b32 %r100, %r1, %r2, 4, 9;", (U32, V32), [int(b) & ~0x1FF0 | (int(a) & 0x1FF) << 4 for a, b in zip(U32, V32)]),
        ("lop3.b32 %r100, %r1, %r2, %r3, 0xCA;", (U32, V32, W32), (U32 & V32) | (~U32 & W32)),
        ("prmt.b32 %r100, %r1, %r2, 0x5410;", (U32, V32), (U32 & 0xFFFF) | (V32 << np.uint32(16))),
        ("shf.l.wrap.b32 %r100, %r1, %r1, 9;", (U32,), [int(a) << 9 | int(a) >> 23 for a in U32]),
        ("mul.lo.s32 %r4, %r1, -3; selp.b32 %r100, %r4, %r2, 1;", (U32, V32), [int(a) * -3 for a in U32]),
    ],
)
def test_integer_operations_equal_unbounded_integers(operation, inputs, expected):
    assert (lanes(operation, *inputs) == ints(expected)).all()


A64 = U32.astype(np.uint64) << np.uint64(20) | V32
B64 = W32.astype(np.uint64) << np.uint64(32) | U32


def test_products_and_sums_of_64_bits():
    pairs = [(int(a), int(b)) for a, b in zip(A64, B64)]
    high = lanes("mul.hi.u64 %rd50, %rd11, %rd12;", A64, B64, bits=64)
    assert (high == ints([a * b >> 64 for a, b in pairs], 64)).all()
    low = lanes("mad.lo.s64 %rd50, %rd11, %rd12, %rd11;", A64, B64, bits=64)
    assert (low == ints([a * b + a for a, b in pairs], 64)).all()


def test_a_wide_product_has_twice_the_bits():
    code = "cvt.u32.u64 %r1, %rd11; cvt.u32.u64 %r2, %rd12; mul.wide.s32 %rd50, %r1, %r2;"
    a, b = A64.astype(np.uint32).view(np.int32), B64.astype(np.uint32).view(np.int32)
    assert (lanes(code, A64, B64, bits=64) == ints([int(x) * int(y) for x, y in zip(a, b)], 64)).all()


def rounded(value: Fraction, mode: str) -> np.float32:
    """A rational number as f32 in a rounding mode."""
    near = np.float32(float(value))
    exact = Fraction(float(near))
    if mode == "rn" or exact == value:
        return near
    low = near if exact < value else np.nextafter(near, np.float32(-np.inf))
    high = np.nextafter(low, np.float32(np.inf))
    toward_low = mode == "rm" or (mode == "rz" and value > 0)
    return low if toward_low else high


@pytest.mark.parametrize("mode", ["rn", "rm", "rp", "rz"])
@pytest.mark.parametrize(("name", "count"), [("add", 2), ("mul", 2), ("fma", 3)])
def test_rounding_is_that_of_exact_arithmetic(name, count, mode):
    inputs = (F32, G32, H32)[:count]
    got = lanes(f"{name}.{mode}.f32 %r100, {', '.join(['%r1', '%r2', '%r3'][:count])};", *inputs).view(np.float32)
    for lane in range(32):
        a, b, *c = (Fraction(float(array[lane])) for array in inputs)
        exact = a + b if name == "add" else a * b + (c[0] if c else 0)
        assert got[lane] == rounded(exact, mode)


def test_fma_rounds_once_where_two_roundings_would_err():
    # a * b + c lies just above the midpoint of two f32, by less than f64 can tell.
    a = np.full(32, 1 + 2.0**-12, np.float32)
    b = np.full(32, 1 + 2.0**-12, np.float32)
    c = np.full(32, 2.0**-70, np.float32)
    exact = Fraction(float(a[0])) * Fraction(float(b[0])) + Fraction(float(c[0]))
    assert np.float32(float(a[0]) * float(b[0]) + float(c[0])) != rounded_nearest(exact)
    assert (lanes("fma.rn.f32 %r100, %r1, %r2, %r3;", a, b, c).view(np.float32) == rounded_nearest(exact)).all()


def rounded_nearest(value: Fraction) -> np.float32:
    """Round to nearest, decided on the rational number itself."""
    guess = np.float32(float(value))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda one: (abs(Fraction(float(one)) - value), one.view(np.uint32) & 1))


def test_a_packed_operation_works_on_both_halves():
    code = "mov.b64 %rd11, {%r1, %r2}; mov.b64 %rd12, {%r3, %r1};"
    code += "fma.rn.f32x2 %rd13, %rd11, %rd12, %rd11; mov.b64 {%r100, %r101}, %rd13;"
    low, high = lanes(code, F32, G32, H32, outputs=2).view(np.float32)
    assert (low == lanes("fma.rn.f32 %r100, %r1, %r2, %r1;", F32, H32).view(np.float32)).all()
    assert (high == lanes("fma.rn.f32 %r100, %r1, %r2, %r1;", G32, F32).view(np.float32)).all()


def test_max_drops_a_nan_and_compares_are_false_with_one():
    nan = np.full(32, np.nan, np.float32)
    assert (lanes("max.f32 %r100, %r1, %r2;", nan, F32).view(np.float32) == F32).all()
    for name, expected in (("lt", 0), ("ne", 0), ("neu", 1), ("ltu", 1), ("nan", 1), ("num", 0)):
        got = lanes(f"setp.{name}.f32 %p1, %r1, %r2; selp.b32 %r100, 1, 0, %p1;", nan, F32)
        assert (got == expected).all(), name


def test_ex2_flushes_subnormals_and_gives_zero_for_minus_infinity():
    x = np.array([-np.inf, -127.5, -126, 0, 1, 10] + 26 * [3], np.float32)
    got = lanes("ex2.approx.ftz.f32 %r100, %r1;", x).view(np.float32)
    assert list(got[:6]) == [0, 0, 2.0**-126, 1, 2, 1024]


def test_bf16_rounds_to_nearest_even_and_nan_is_canonical():
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0xFFC00000] + 25 * [0], np.uint32)
    got = lanes("cvt.rn.bf16x2.f32 %r100, %r1, %r2;", bits, np.zeros(32, np.uint32))
    assert [hex(value >> 16) for value in got[:7]] == ["0x3f80", "0x3f82", "0x3f81", "0x7f80", "0x7f80", "0x7fff", "0x7fff"]


@pytest.mark.parametrize(
    ("code", "given", "expected"),
    [
        ("cvt.rzi.s32.f32", [-1.9, 2.9, 1e20, np.nan], [-1, 2, 2**31 - 1, 0]),
        ("cvt.rmi.s32.f32", [-1.1, 2.9, -1e20, 0.5], [-2, 2, -(2**31), 0]),
        ("cvt.rni.s32.f32", [0.5, 1.5, 2.5, -0.5], [0, 2, 2, 0]),
        ("cvt.rzi.u32.f32", [-1.0, 3e9, 5e9, 7.5], [0, 3000000000, 2**32 - 1, 7]),
    ],
)
def test_floats_become_integers_by_mode_clamped(code, given, expected):
    got = lanes(f"{code} %r100, %r1;", np.resize(np.array(given, np.float32), 32))
    assert (got[:4] == ints(expected)).all()


def test_integers_become_floats_rounded_to_nearest():
    assert (lanes("cvt.rn.f32.s32 %r100, %r1;", U32).view(np.float32) == S32.astype(np.float32)).all()
    assert (lanes("cvt.rn.f32.u32 %r100, %r1;", U32).view(np.float32) == U32.astype(np.float32)).all()


def test_narrow_integers_are_extended_by_their_sign():
    assert (lanes("cvt.s32.s8 %r100, %r1;", U32) == ints(U32.astype(np.uint8).view(np.int8))).all()
    assert (lanes("cvt.u32.u16 %r100, %r1;", U32) == (U32 & 0xFFFF)).all()


def test_a_register_written_under_a_predicate_keeps_its_old_lanes():
    code = "setp.lt.u32 %p1, %r1, 10; mov.b32 %r100, 5; @%p1 mov.b32 %r100, %r1; @!%p1 add.s32 %r100, %r100, 1;"
    assert (lanes(code, np.arange(32, dtype=np.uint32)) == np.where(np.arange(32) < 10, np.arange(32), 6)).all()


def test_a_predicated_write_may_be_a_registers_first():
    code = "setp.lt.u32 %p1, %r1, 10; @%p1 mov.b32 %r100, 5; @!%p1 mov.b32 %r100, %r1;"
    assert (lanes(code, np.arange(32, dtype=np.uint32)) == np.where(np.arange(32) < 10, 5, np.arange(32))).all()


def test_reductions_of_floats_drop_nan_unless_asked_to_keep_it():
    x = np.linspace(-5, 4, 32).astype(np.float32)
    x[7] = np.nan
    bits = x.view(np.uint32)
    assert lanes("redux.sync.max.f32 %r100, %r1, -1;", bits).view(np.float32)[0] == 4
    assert lanes("redux.sync.max.abs.f32 %r100, %r1, -1;", bits).view(np.float32)[0] == 5
    assert np.isnan(lanes("redux.sync.min.NaN.f32 %r100, %r1, -1;", bits).view(np.float32)).all()
