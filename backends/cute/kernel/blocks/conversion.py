"""Ints as floats, while tracing: elements of a thread lie a constant apart, and what they share is converted once."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass._mlir import ir

# Beyond 2^24 a float has not every int, and what a conversion rounds off may be as much as is left once a large constant is taken
# away. With constants so small no more than one rounding comes to the conversion's own.
NEAR = 1 << 10
SIGNS = {"arith.addi": 1, "arith.subi": -1}


def absolute(value: Any) -> Any:
    """Absolute value of an int or a float."""
    if isinstance(value, Float32):
        return cute.math.absf(value)
    found = cutlass.max(value, -value)
    if isinstance(found, Int32):
        found.magnitude_of = value  # pyright: ignore[reportAttributeAccessIssue]
    return found


def to_float(value: Any) -> Float32:
    """An int as a float: exact up to 2^24 in magnitude, else within two roundings.

    Of an absolute value what it is of is converted: a float's sign costs nothing.
    """
    if hasattr(value, "magnitude_of"):
        return cute.math.absf(to_float(value.magnitude_of))
    whole = Int32(value)
    if isinstance(value, int):
        return Float32(whole)
    shared, constant = _apart(whole)
    if constant and abs(constant) <= NEAR:
        return Float32(shared) + Float32(constant)
    return Float32(whole)


def _apart(value: Int32) -> tuple[Int32, int]:
    """An int as the sum of what instructions make and of a constant, as it was put together."""
    operation = value.ir_value().owner
    if not isinstance(operation, ir.OpView) or operation.name not in SIGNS:
        return value, 0
    (left, first), (right, second) = (_term(operand) for operand in operation.operands)
    sign = SIGNS[operation.name]
    constant = first + sign * second
    if right is None:
        return (value, 0) if left is None else (left, constant)
    if left is None:
        return (right, constant) if sign > 0 else (-right, constant)
    return (left + right if sign > 0 else left - right), constant


def _term(operand: Any) -> tuple[Int32 | None, int]:
    """The same of an operand; None beside a constant alone."""
    operation = operand.owner
    if isinstance(operation, ir.OpView) and operation.name == "arith.constant":
        return None, ir.IntegerAttr(operation.attributes["value"]).value
    return _apart(Int32(operand))
