"""f32 arithmetic one value at a time, traced one operation for one: Hopper has no packed form of it."""

from typing import Any

from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.exponential import LEAST, MAGIC, MANTISSA_BITS, POLYNOMIALS
from cutlass import Float32
from cutlass._mlir.dialects import arith, llvm
from cutlass.cutlass_dsl import dsl_user_op


def _bare(value: Any, loc: Any) -> Any:
    return value.ir_value(loc=loc)


@dsl_user_op
def plus(left: Float32, right: Float32, *, loc: Any = None) -> Float32:
    """left + right."""
    return Float32(arith.addf(_bare(left, loc), _bare(right, loc), loc=loc), loc=loc)


@dsl_user_op
def minus(left: Float32, right: Float32, *, loc: Any = None) -> Float32:
    """left - right."""
    return Float32(arith.subf(_bare(left, loc), _bare(right, loc), loc=loc), loc=loc)


@dsl_user_op
def fused(left: Float32, right: Float32, addend: Float32, *, loc: Any = None) -> Float32:
    """left * right + addend, rounded once."""
    operands = [_bare(one, loc) for one in (left, right, addend)]
    return Float32(llvm.intr_fma(*operands, loc=loc), loc=loc)


@dsl_user_op
def plus_down(left: Float32, right: Float32, *, loc: Any = None) -> Float32:
    """left + right, rounded down."""
    operands = [_bare(one, loc) for one in (left, right)]
    found = llvm.inline_asm(
        Float32.mlir_type,
        operands,
        "add.rm.f32 $0, $1, $2;",
        "=f,f,f",
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
        loc=loc,
    )
    return Float32(found, loc=loc)


class Emulation:
    """2^x on the FMA pipe (see `exponential`), one value at a time.

    keeps_nan: the sum of exponents would make some number of a NaN.
    """

    def __init__(self, degree: int, keeps_nan: bool) -> None:
        self.least, self.magic, self.minus_magic = Float32(LEAST), Float32(MAGIC), Float32(-MAGIC)
        self.coefficients = [Float32(value) for value in (1.0, *POLYNOMIALS[degree])]
        self.keeps_nan = keeps_nan

    def __call__(self, x: Float32) -> Float32:
        """2^x."""
        x = f32.larger(x, self.least)
        floored = plus_down(x, self.magic)
        part = minus(x, plus(floored, self.minus_magic))
        *rest, value = self.coefficients
        for coefficient in reversed(rest):
            value = fused(value, part, coefficient)
        value = f32.times_power(value, floored, MANTISSA_BITS)
        return fused(x, Float32(0.0), value) if self.keeps_nan else value
