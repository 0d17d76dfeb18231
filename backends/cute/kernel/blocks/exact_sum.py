"""Sums of f32 numbers that are exact, and so the same bits in whatever order they are added.

A sum is ten words of 64 bits: nine digits of weight 2^(32 n - 149), which integers are added to, and a word of flags for what is
not finite. A number adds its 24 bits to two digits at most; a digit holds 2^31 numbers before it overflows.
"""

from typing import Any

from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Float32, Float64, Int32, Int64

DIGITS = 9  # of 32 bits, from 2^-149 on: all of f32, and 24 bits above
WORDS = DIGITS + 1
WORD_BYTES = 8

# Sign, exponent and 24 bits; the exponent says which digit and how far into it; both halves to their digits, unless 0.
ADD = f"""{{
	.reg .pred subnormal, negative, finite, some, more;
	.reg .b32 bits, exponent, small, shift, digit, flag;
	.reg .b64 wide, low, high, place, minus;
	mov.b32 bits, {{$r1}};
	bfe.u32 exponent, bits, 23, 8;
	and.b32 small, bits, 0x7fffff;
	setp.ne.u32 finite, exponent, 255;
	setp.eq.u32 subnormal, exponent, 0;
	setp.lt.s32 negative, bits, 0;
	selp.b32 flag, 2, 1, negative;
	setp.ne.u32 some, small, 0;
	selp.b32 flag, 4, flag, some;
	@!subnormal or.b32 small, small, 0x800000;
	@!subnormal sub.u32 exponent, exponent, 1;
	and.b32 shift, exponent, 31;
	shr.u32 digit, exponent, 5;
	mad.wide.u32 place, digit, {WORD_BYTES}, {{$r0}};
	cvt.u64.u32 wide, small;
	shl.b64 wide, wide, shift;
	and.b64 low, wide, 0xffffffff;
	shr.u64 high, wide, 32;
	neg.s64 minus, low;
	selp.b64 low, minus, low, negative;
	neg.s64 minus, high;
	selp.b64 high, minus, high, negative;
	setp.ne.and.s64 some, low, 0, finite;
	setp.ne.and.s64 more, high, 0, finite;
	@some red.global.add.u64 [place], low;
	@more red.global.add.u64 [place+{WORD_BYTES}], high;
	@!finite red.global.or.b32 [{{$r0}}+{DIGITS * WORD_BYTES}], flag;
	}}"""


def add(address: Any, value: Float32) -> None:
    """Add a number to the sum whose words begin at an address."""
    ptx(ADD, Int64(address), value)


def total(address: Any) -> Float32:
    """The sum, rounded to f32; infinite or NaN where that is what was added."""
    digits = [ptx(f"ld.global.b64 {{$w0}}, [{{$r0}}+{at * WORD_BYTES}];", address, returns=[Int64]) for at in range(DIGITS)]
    flags = ptx(f"ld.global.b32 {{$w0}}, [{{$r0}}+{DIGITS * WORD_BYTES}];", address, returns=[Int32])
    # Once to learn the sign; then again, of the sum that is not negative, so that digits do not cancel.
    _, above = _carried(digits)
    sign = ptx("{.reg .pred p; setp.lt.s64 p, {$r0}, 0; selp.b64 {$w0}, -1, 1, p;}", above, returns=[Int64])
    proper, above = _carried([ptx("mul.lo.s64 {$w0}, {$r0}, {$r1};", digit, sign, returns=[Int64]) for digit in digits])
    value = _to_float(above)
    for digit in reversed(proper):
        value = ptx("mul.rn.f64 {$w0}, {$r0}, 0d41F0000000000000;", value, returns=[Float64])  # 2^32
        value = ptx("add.rn.f64 {$w0}, {$r0}, {$r1};", value, _to_float(digit), returns=[Float64])
    value = ptx("mul.rn.f64 {$w0}, {$r0}, 0d36A0000000000000;", value, returns=[Float64])  # 2^-149
    value = ptx("mul.rn.f64 {$w0}, {$r0}, {$r1};", value, _to_float(sign), returns=[Float64])
    found = ptx("cvt.rn.f32.f64 {$w0}, {$r0};", value, returns=[Float32])
    return _flagged(found, flags)


def _carried(digits: list[Any]) -> tuple[list[Any], Any]:
    """Digits from 0 to 2^32 - 1, and what is left above them, which has the sign."""
    carry, proper = Int64(0), []
    text = "{.reg .b64 t; add.s64 t, {$r0}, {$r1}; and.b64 {$w0}, t, 0xffffffff; shr.s64 {$w1}, t, 32;}"
    for digit in digits:
        low, carry = ptx(text, digit, carry, returns=[Int64, Int64])
        proper.append(low)
    return proper, carry


def _to_float(digit: Any) -> Any:
    return ptx("cvt.rn.f64.s64 {$w0}, {$r0};", digit, returns=[Float64])


def _flagged(value: Float32, flags: Int32) -> Float32:
    """flags: bit 0 for an infinity, bit 1 for a negative one, bit 2 for a NaN; both infinities are a NaN too."""
    text = """{
	.reg .pred p;
	setp.eq.u32 p, {$r1}, 0;
	selp.b32 {$w0}, {$r0}, 0x7fffffff, p;
	setp.eq.u32 p, {$r1}, 1;
	selp.b32 {$w0}, 0x7f800000, {$w0}, p;
	setp.eq.u32 p, {$r1}, 2;
	selp.b32 {$w0}, 0xff800000, {$w0}, p;
	}"""
    return ptx(text, value, flags, returns=[Float32])
