"""What is done to every value of a row, traced one operation for one that is meant.

The DSL's own functions convert, wrap and check their operands with operations of their own, three to twelve for one, and most of
the time it takes to compile a kernel is tracing them. A pair is two f32 values that one instruction works on (PTX ISA, .f32x2).
"""

from collections.abc import Sequence
from typing import Any

from cutlass import Float32, Int32, Uint32
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm, nvvm, vector
from cutlass.cutlass_dsl import dsl_user_op

ROUNDINGS = {"nearest": nvvm.FPRoundingMode.RN, "down": nvvm.FPRoundingMode.RM}


def _f32s(count: int) -> ir.Type:
    return ir.VectorType.get([count], Float32.mlir_type)


def _bare(value: Any, loc: Any) -> Any:
    """The value itself; a number known while tracing becomes a constant."""
    return value.value if isinstance(value.value, ir.Value) else value.ir_value(loc=loc)


@dsl_user_op
def pair(low: Float32, high: Float32, *, loc: Any = None) -> Any:
    """A pair of two values."""
    return vector.from_elements(_f32s(2), [_bare(low, loc), _bare(high, loc)], loc=loc)


def twice(value: Any) -> Any:
    """A pair of one value, a float or a Float32."""
    value = Float32(value)
    return pair(value, value)


@dsl_user_op
def apart(both: Any, *, loc: Any = None) -> tuple[Float32, Float32]:
    """The two values of a pair."""
    low, high = (vector.extract(both, [], [index], loc=loc) for index in range(2))
    return Float32(low, loc=loc), Float32(high, loc=loc)


@dsl_user_op
def add(left: Any, right: Any, rounding: str = "nearest", *, loc: Any = None) -> Any:
    """Pairs, left + right."""
    return nvvm.add_packed_f32x2(left, right, rnd=ROUNDINGS[rounding], loc=loc)


@dsl_user_op
def subtract(left: Any, right: Any, *, loc: Any = None) -> Any:
    """Pairs, left - right."""
    return nvvm.sub_packed_f32x2(left, right, rnd=ROUNDINGS["nearest"], loc=loc)


@dsl_user_op
def multiply(left: Any, right: Any, *, loc: Any = None) -> Any:
    """Pairs, left * right."""
    return nvvm.mul_packed_f32x2(left, right, rnd=ROUNDINGS["nearest"], loc=loc)


@dsl_user_op
def multiply_add(left: Any, right: Any, addend: Any, *, loc: Any = None) -> Any:
    """Pairs, left * right + addend, rounded once."""
    return nvvm.fma_packed_f32x2(left, right, addend, rnd=ROUNDINGS["nearest"], loc=loc)


@dsl_user_op
def times(left: Float32, right: Float32, *, loc: Any = None) -> Float32:
    """left * right."""
    return Float32(arith.mulf(_bare(left, loc), _bare(right, loc), loc=loc), loc=loc)


@dsl_user_op
def times_power(value: Float32, exponent: Float32, shift: int, *, loc: Any = None) -> Float32:
    """value * 2^n: the low bits of `exponent`, moved up by `shift`, are added to those of `value`."""
    i32 = Int32.mlir_type
    bits, power = (llvm.bitcast(i32, _bare(one, loc), loc=loc) for one in (value, exponent))
    moved = arith.shli(power, arith.constant(i32, shift, loc=loc), loc=loc)
    return Float32(llvm.bitcast(Float32.mlir_type, arith.addi(bits, moved, loc=loc), loc=loc), loc=loc)


@dsl_user_op
def places(first: Int32, count: int, *, loc: Any = None) -> list[Int32]:
    """first, first + 1, ..."""
    start, i32 = _bare(first, loc), Int32.mlir_type
    return [Int32(arith.addi(start, arith.constant(i32, index, loc=loc), loc=loc), loc=loc) for index in range(count)]


@dsl_user_op
def exp2(value: Float32, *, loc: Any = None) -> Float32:
    """2^x by ex2.approx.ftz."""
    return Float32(nvvm.ex2(_bare(value, loc), ftz=True, loc=loc), loc=loc)


@dsl_user_op
def larger(left: Float32, right: Float32, *, loc: Any = None) -> Float32:
    """The larger of two values; NaN if either is."""
    return Float32(nvvm.fmax(_bare(left, loc), _bare(right, loc), nan=True, loc=loc), loc=loc)


@dsl_user_op
def largest(first: Float32, second: Float32, third: Float32, *, loc: Any = None) -> Float32:
    """The largest of three values; NaN if one is (PTX ISA, max of three operands, from sm_100 on)."""
    values = (_bare(value, loc) for value in (first, second, third))
    left, right, last = values
    return Float32(nvvm.fmax(left, right, c=last, nan=True, loc=loc), loc=loc)


@dsl_user_op
def where_bit(word: Uint32, bit: int, value: Float32, otherwise: Any, *, loc: Any = None) -> Float32:
    """`value` where a bit of the word is set, else `otherwise`, a value made by `constant`."""
    i32 = Int32.mlir_type
    masked = arith.andi(_bare(word, loc), arith.constant(i32, 1 << bit if bit < 31 else -(1 << 31), loc=loc), loc=loc)
    is_set = arith.cmpi(arith.CmpIPredicate.ne, masked, arith.constant(i32, 0, loc=loc), loc=loc)
    return Float32(arith.select(is_set, _bare(value, loc), otherwise, loc=loc), loc=loc)


@dsl_user_op
def constant(value: float, *, loc: Any = None) -> Any:
    """An f32 constant, for `where_bit`."""
    return arith.constant(Float32.mlir_type, value, loc=loc)


@dsl_user_op
def words(values: Sequence[Float32], *, loc: Any = None) -> list[Int32]:
    """f32 values as 32-bit words."""
    return [Int32(llvm.bitcast(Int32.mlir_type, _bare(value, loc), loc=loc), loc=loc) for value in values]


@dsl_user_op
def narrow(values: Sequence[Float32], element: Any, *, loc: Any = None) -> list[Int32]:
    """Values rounded to the 16-bit type, two to a word, the first in the lower half."""
    count = len(values)
    wide = vector.from_elements(_f32s(count), [_bare(value, loc) for value in values], loc=loc)
    short = arith.truncf(ir.VectorType.get([count], element.mlir_type), wide, loc=loc)
    packed = llvm.bitcast(ir.VectorType.get([count // 2], Int32.mlir_type), short, loc=loc)
    return [Int32(vector.extract(packed, [], [index], loc=loc), loc=loc) for index in range(count // 2)]
