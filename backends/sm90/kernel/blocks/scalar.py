"""f32 arithmetic one value at a time, traced one operation for one: Hopper has no packed form of it."""

from collections.abc import Sequence
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.exponential import LEAST, MAGIC, MANTISSA_BITS, POLYNOMIALS
from attnspec.backends.cute.kernel.blocks.ptx import ODD_NAN
from cutlass import BFloat16, Float32, Int32
from cutlass._mlir import ir
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
    return Float32(_instruction(Float32, "add.rm.f32 $0, $1, $2;", "=f,f,f", (left, right), loc), loc=loc)


@dsl_user_op
def narrow_here(values: Sequence[Float32], element: Any, *, loc: Any = None) -> list[Int32]:
    """As `f32.narrow`; but LLVM takes no such conversion for one that may wait until paths meet, past all exponentials."""
    text = f"cvt.rn.{'bf16' if element is BFloat16 else 'f16'}x2.f32 $0, $2, $1;"
    pairs = zip(values[::2], values[1::2], strict=True)
    return [Int32(_instruction(Int32, text, "=r,f,f", pair, loc), loc=loc) for pair in pairs]


@dsl_user_op
def known_after(first: Float32, second: Float32, other: Float32, *, loc: Any = None) -> tuple[Float32, Float32]:
    """The same two values, which no compiler can have before `other`."""
    is_plain = f"setp.ne.b32 p, $4, {ODD_NAN:#x};"
    text = "{ .reg .pred p; " + is_plain + " selp.f32 $0, $2, 0f00000000, p; selp.f32 $1, $3, 0f00000000, p; }"
    both = ir.Type.parse("!llvm.struct<(f32, f32)>")
    found = _instruction(both, text, "=f,=f,f,f,f", (first, second, other), loc)
    return tuple(Float32(llvm.extractvalue(Float32.mlir_type, found, [at], loc=loc), loc=loc) for at in range(2))


def zero_after(value: Float32) -> Int32:
    """0, the same in all lanes, which no compiler can have before `value`: uniform instructions that hang on it come later."""
    is_odd = f32.words([value])[0] == ODD_NAN
    return Int32(cutlass.select_(cute.arch.vote_any_sync(is_odd), Int32(1), Int32(0)))


def _instruction(kind: Any, text: str, constraints: str, operands: Sequence[Any], loc: Any) -> Any:
    return llvm.inline_asm(
        kind if isinstance(kind, ir.Type) else kind.mlir_type,
        [_bare(one, loc) for one in operands],
        text,
        constraints,
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
        loc=loc,
    )


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
