"""Algebra that never changes a value: constants folded, neutral elements and repeated conditions removed.

Floats keep IEEE meaning: nothing is reassociated, `x + 0.0` stays (it turns -0 into 0), `0.0 * x` stays (NaN, inf), and the
negation of a float comparison stays (NaN). Integers are exact while they fit 32 bits; what would not fit is left alone.
"""

import math
from dataclasses import replace

from attnspec.lowering.fold import COMPARISONS, FLOAT_ARITHMETIC, FLOAT_CALLS, INT_ARITHMETIC, OPPOSITE, fits, known, number

from attnspec.language.expr import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Logic,
    Number,
    Select,
    Truth,
    Unary,
    rewrite,
)

# Integer operations and the right operand that makes them do nothing.
NEUTRAL_RIGHT = {("+", 0), ("-", 0), ("*", 1), ("//", 1), ("|", 0), ("^", 0), ("<<", 0), (">>", 0), ("&", -1)}
COMMUTES = {"+", "*", "&", "|", "^"}


def simplify(expr: Expr) -> Expr:
    """The same value in fewer operations; a replaced node keeps the name a person gave it."""

    def change(at: Expr) -> Expr:
        found = reduced(at)
        if found is not at and at.label and not found.label:
            return replace(found, label=at.label, span=at.span)
        return found

    return rewrite(expr, change)


def reduced(at: Expr) -> Expr:
    """One node over operands that are simple already."""
    match at:
        case Unary(op="not"):
            return negation(at)
        case Unary():
            return minus(at)
        case Binary(kind="int"):
            return int_binary(at)
        case Binary():
            return float_binary(at)
        case Compare():
            return comparison(at)
        case Logic():
            return logic(at)
        case Select():
            return select(at)
        case Call():
            return call(at)
        case Convert(operand=Number(value=value)):
            return number(value, "float")
    return at


def negation(at: Unary) -> Expr:
    """`not`, moved into comparisons of ints."""
    match at.operand:
        case Truth(value=value):
            return Truth(not value)
        case Unary(op="not", operand=inner):
            return inner
        case Compare(op=op, left=left, right=right) if left.kind == "int":
            return Compare(OPPOSITE[op], left, right, span=at.span)  # type: ignore[arg-type]
    return at


def minus(at: Unary) -> Expr:
    """Sign of a number."""
    match at.operand:
        case Number(value=value) if at.kind == "float":
            return known(-value, at)
        case Number(value=value) if fits(-value):
            return number(-value, "int")
        case Unary(op="-", operand=inner):
            return inner
    return at


def int_binary(at: Binary) -> Expr:
    """Integer arithmetic: constants, neutral elements, x - x, and constants gathered from the left."""
    left, right = at.left, at.right
    if isinstance(left, Number) and isinstance(right, Number):
        return folded(at, left, right)
    if isinstance(left, Number) and at.op in COMMUTES:
        at = replace(at, left=right, right=left)
        left, right = at.left, at.right
    if left == right and at.op in ("-", "^"):
        return number(0, "int")
    if left == right and at.op in ("&", "|"):
        return left
    if not isinstance(right, Number):
        return at
    if (at.op, right.value) in NEUTRAL_RIGHT:
        return left
    if (at.op, right.value) in {("*", 0), ("&", 0), ("%", 1)}:
        return number(0, "int")
    return gathered(at, right)


def folded(at: Binary, left: Number, right: Number) -> Expr:
    """A constant, unless the result leaves 32 bits or the divisor is 0."""
    if at.op in ("//", "%") and right.value == 0:
        return at
    value = INT_ARITHMETIC[at.op](int(left.value), int(right.value))
    return number(value, "int") if fits(value) else at


def gathered(at: Binary, right: Number) -> Expr:
    """(x + 2) + 3 as x + 5, of any mix of `+` and `-`."""
    inner = at.left
    if at.op not in ("+", "-") or not isinstance(inner, Binary) or inner.op not in ("+", "-"):
        return at
    if not isinstance(inner.right, Number):
        return at
    total = sum(int(n.value) * (1 if op == "+" else -1) for op, n in ((inner.op, inner.right), (at.op, right)))
    if not fits(total) or not fits(-total):
        return at
    if total == 0:
        return inner.left
    return replace(at, op="+" if total > 0 else "-", left=inner.left, right=number(abs(total), "int"))


def float_binary(at: Binary) -> Expr:
    """Float arithmetic: constants, and only the laws that hold for NaN, inf and -0."""
    left, right = at.left, at.right
    if isinstance(left, Number) and isinstance(right, Number) and at.op in FLOAT_ARITHMETIC:
        try:
            return known(FLOAT_ARITHMETIC[at.op](left.value, right.value), at)
        except (ZeroDivisionError, OverflowError):
            return at
    if isinstance(right, Number) and right.value == 1 and at.op in ("*", "/"):
        return left
    if isinstance(left, Number) and left.value == 1 and at.op == "*":
        return right
    if isinstance(right, Number) and right.value == 0 and at.op == "-" and math.copysign(1, right.value) > 0:
        return left
    return at


def comparison(at: Compare) -> Expr:
    """Constants, and an int with itself."""
    left, right = at.left, at.right
    if isinstance(left, Number) and isinstance(right, Number):
        return Truth(COMPARISONS[at.op](left.value, right.value))
    if left == right and left.kind == "int":
        return Truth(at.op in ("<=", "==", ">="))
    return at


def opposite(left: Expr, right: Expr) -> bool:
    """Is one the negation of the other, for every value (ints only: NaN is on neither side)?"""
    if left == Unary("not", right, "bool") or right == Unary("not", left, "bool"):
        return True
    if isinstance(left, Compare) and isinstance(right, Compare) and left.left.kind == "int":
        return (left.left, left.right, left.op) == (right.left, right.right, OPPOSITE[right.op])
    return False


def logic(at: Logic) -> Expr:
    """`and`, `or`: constants, the same operand twice, an operand and its opposite, absorption."""
    absorbing = at.op == "or"
    for one, other in ((at.left, at.right), (at.right, at.left)):
        if isinstance(one, Truth):
            return one if one.value == absorbing else other
        if isinstance(other, Logic) and other.op != at.op and one in (other.left, other.right):
            return one
        if isinstance(other, Logic) and other.op == at.op and one in (other.left, other.right):
            return other
    if at.left == at.right:
        return at.left
    return Truth(absorbing) if opposite(at.left, at.right) else at


def select(at: Select) -> Expr:
    """A choice: known, of equals, under a condition that an outer choice has settled."""
    condition, if_true, if_false = at.condition, at.if_true, at.if_false
    if isinstance(condition, Truth):
        return if_true if condition.value else if_false
    if isinstance(condition, Unary):
        return select(replace(at, condition=condition.operand, if_true=if_false, if_false=if_true))
    if isinstance(if_true, Select) and if_true.condition == condition:
        return select(replace(at, if_true=if_true.if_true))
    if isinstance(if_false, Select) and if_false.condition == condition:
        return select(replace(at, if_false=if_false.if_false))
    if if_true == if_false:
        return if_true
    if isinstance(if_true, Truth) or isinstance(if_false, Truth):
        return bool_select(at)
    return at


def bool_select(at: Select) -> Expr:
    """A choice between bools, one of them a constant, as logic."""
    condition = at.condition
    if isinstance(at.if_true, Truth):
        if at.if_true.value:
            return logic(Logic("or", condition, at.if_false))
        return logic(Logic("and", negation(Unary("not", condition, "bool")), at.if_false))
    if isinstance(at.if_false, Truth) and not at.if_false.value:
        return logic(Logic("and", condition, at.if_true))
    return logic(Logic("or", negation(Unary("not", condition, "bool")), at.if_true))


def call(at: Call) -> Expr:
    """Functions of constants; min and max of equals and of two constants in a row; abs of abs and of a negation."""
    first = at.arguments[0]
    if at.function in ("min", "max"):
        return extreme(at)
    if at.function == "abs":
        if isinstance(first, Number) and fits(abs(first.value)):
            return number(abs(first.value), at.kind)
        if isinstance(first, Unary):
            return call(replace(at, arguments=(first.operand,)))
        return first if isinstance(first, Call) and first.function == "abs" else at
    if isinstance(first, Number) and at.function in FLOAT_CALLS:
        try:
            return known(FLOAT_CALLS[at.function](first.value), at)
        except (ValueError, OverflowError, ZeroDivisionError):
            return at
    if at.function == "floor" and isinstance(first, Number) and math.isfinite(first.value):
        value = math.floor(first.value)
        return number(value, "int") if fits(value) else at
    return at


def extreme(at: Call) -> Expr:
    """min and max."""
    pick = min if at.function == "min" else max
    left, right = at.arguments
    if isinstance(left, Number) and isinstance(right, Number) and left.value == left.value and right.value == right.value:
        return number(pick(left.value, right.value), at.kind)
    if left == right:
        return left
    if isinstance(left, Number):
        left, right = right, left
    if isinstance(left, Call) and left.function == at.function and isinstance(right, Number):
        inner = left.arguments[1]
        if isinstance(inner, Number):
            return replace(at, arguments=(left.arguments[0], number(pick(inner.value, right.value), at.kind)))
    return at if (left, right) == at.arguments else replace(at, arguments=(left, right))
