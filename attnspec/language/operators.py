"""Operators on checked operands: kinds, promotion, folding of constants, and what must be proved of divisors and shifts.

Each function takes values and gives a typed expression, or FAULTY with the fault recorded.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from attnspec.language.context import Context
from attnspec.language.expr import (
    ArithmeticOp,
    Binary,
    Compare,
    CompareOp,
    Convert,
    Expr,
    Kind,
    Logic,
    Number,
    Select,
    Truth,
    Unary,
)
from attnspec.language.fold import FoldError, arithmetic, checked
from attnspec.language.fold import compare as fold_compare
from attnspec.language.limits import LEAST_FLOAT
from attnspec.language.linear import Linear
from attnspec.language.source import Span
from attnspec.language.values import FAULTY, KIND_WORDS, Faulty, NoValue, Value, WholeTensor, is_expr
from attnspec.language.whole_tensor import count_axes, example_read

INT_ONLY = {
    "//": "write `floor(x / y)`",
    "%": "write `x - y * floor(x / y)`",
    "&": "join conditions with `and`",
    "|": "join conditions with `or`",
    "^": "`^` is exclusive or; for a power write `x * x` or `exp(y * log(x))`",
    "<<": "write `x * exp2(n)`",
    ">>": "write `x * exp2(-n)`",
}

JOINS = {"&": "write `and`", "|": "write `or`", "^": "write `a and not b or b and not a`"}


def plain(ctx: Context, value: Value) -> Expr | None:
    """The value as a typed expression; None, with the fault recorded, if it is a whole tensor or `none`."""
    match value:
        case Faulty():
            return None
        case WholeTensor():
            help = f"read an element of it: `{example_read(value.tensor)}`"
            message = f"`{value.tensor.name}` is a tensor of {count_axes(value.tensor)}, not a number"
            ctx.faults.add("tensor-not-indexed", message, value.span, help=help)
            return None
        case NoValue():
            ctx.faults.add("none-has-no-value", "`none` stands where a value is needed", value.span)
            return None
        case _:
            return value


def number(ctx: Context, value: Value, what: str) -> Expr | None:
    """The value as an int or float. what: the operator or function that needs it, for the message."""
    found = plain(ctx, value)
    if found is None or found.kind != "bool":
        return found
    help = "turn a condition into a number with `1 if ... else 0`"
    ctx.faults.add("kind-mismatch", f"{what} needs a number, not a boolean", found.span, "is a boolean", help)
    return None


def boolean(ctx: Context, value: Value, what: str) -> Expr | None:
    """The value as a condition."""
    found = plain(ctx, value)
    if found is None or found.kind == "bool":
        return found
    message = f"{what} needs a condition, not {KIND_WORDS[found.kind]}"
    ctx.faults.add("kind-mismatch", message, found.span, f"is {KIND_WORDS[found.kind]}", "compare it: `x != 0`")
    return None


def as_float(ctx: Context, expr: Expr) -> Expr:
    """An int or float as a float."""
    if expr.kind == "float":
        return expr
    if isinstance(expr, Number):
        return Number(float(expr.value), "float", expr.span, expr.label)
    return ctx.measured(Convert(expr, expr.span))


def one_kind(ctx: Context, *operands: Expr) -> tuple[tuple[Expr, ...], Kind]:
    """Numbers brought to one kind: float if any of them is."""
    if all(at.kind == "int" for at in operands):
        return operands, "int"
    return tuple(as_float(ctx, at) for at in operands), "float"


def folded(ctx: Context, span: Span, kind: Kind, work: Callable[[], int | float]) -> Value:
    """A constant from other constants."""
    try:
        value = work()
    except FoldError as error:
        ctx.faults.add(error.name, error.message, span)
        return FAULTY
    return Number(float(value) if kind == "float" else value, kind, span)


def literal(ctx: Context, value: int | float, span: Span) -> Value:
    """A number as written; one that f32 has no number for but 0 would divide and scale as no one meant."""
    if value and abs(value) < LEAST_FLOAT:
        ctx.faults.add("float-out-of-range", f"the value {value} is 0 as an f32 number", span)
        return FAULTY
    return folded(ctx, span, "int" if isinstance(value, int) else "float", lambda: checked(value))


def negate(ctx: Context, value: Value, span: Span) -> Value:
    """`-x`."""
    operand = number(ctx, value, "`-`")
    if operand is None:
        return FAULTY
    if isinstance(operand, Number):
        negative = -operand.value
        if operand.kind == "float":
            return Number(negative, "float", span)  # -inf is a value a score may have
        return folded(ctx, span, "int", lambda: checked(negative))
    return ctx.measured(Unary("-", operand, operand.kind, span))


def binary(ctx: Context, op: str, left_value: Value, right_value: Value, span: Span) -> Value:
    """Arithmetic and bit operations."""
    if op in JOINS and all(is_expr(value) and value.kind == "bool" for value in (left_value, right_value)):
        ctx.faults.add("kind-mismatch", f"`{op}` works on the bits of integers", span, "joins conditions", JOINS[op])
        return FAULTY
    left, right = number(ctx, left_value, f"`{op}`"), number(ctx, right_value, f"`{op}`")
    if left is None or right is None:
        return FAULTY
    if op in INT_ONLY:
        for operand in (left, right):
            if operand.kind != "int":
                message = f"`{op}` works on integers, not on {KIND_WORDS[operand.kind]}"
                ctx.faults.add("kind-mismatch", message, operand.span, "is a float", INT_ONLY[op])
                return FAULTY
    if op == "/":
        left, right = as_float(ctx, left), as_float(ctx, right)
    (left, right), kind = one_kind(ctx, left, right)
    if isinstance(left, Number) and isinstance(right, Number):
        values = left.value, right.value
        return folded(ctx, span, kind, lambda: arithmetic(op, *values))
    if not _is_defined(ctx, op, right):
        return FAULTY
    return ctx.measured(Binary(cast(ArithmeticOp, op), left, right, kind, span))


def _is_defined(ctx: Context, op: str, right: Expr) -> bool:
    """Whether an operator's right side is proved to be one that it is defined for."""
    if op == "/" and isinstance(right, Number) and abs(right.value) < LEAST_FLOAT:
        ctx.faults.add("division-by-zero", "this divides by zero", right.span)
        return False
    if op not in ("//", "%", "<<", ">>"):
        return True
    found = ctx.ranges.of(right)
    note = f"lies in {ctx.ranges.show(right)}"
    if op in ("//", "%"):
        if found.is_at_least(Linear(1)) or found.is_at_most(Linear(-1)):
            return True
        if found.number == 0:
            ctx.faults.add("division-by-zero", "this divides by zero", right.span)
        else:
            help = "keep it from 0: `max(x, 1)`, or declare its range: `in 1..N`"
            ctx.faults.add("divisor-may-be-zero", f"the divisor of `{op}` may be zero", right.span, note, help)
        return False
    if found.is_at_least(Linear(0)) and found.is_at_most(Linear(31)):
        return True
    ctx.faults.add("shift-out-of-range", "a shift must be by 0..31", right.span, note, "keep it there: `n & 31`")
    return False


def comparison(ctx: Context, op: str, left_value: Value, right_value: Value, span: Span) -> Value:
    """One comparison; of a chain, one link."""
    sides = plain(ctx, left_value), plain(ctx, right_value)
    if sides[0] is not None and sides[1] is not None and op in ("==", "!=") and {at.kind for at in sides if at} == {"bool"}:
        help = "write `a and b or not a and not b`, or declare the tensor as i32"
        ctx.faults.add("kind-mismatch", f"`{op}` compares numbers, not booleans", span, help=help)
        return FAULTY
    left, right = number(ctx, left_value, f"`{op}`"), number(ctx, right_value, f"`{op}`")
    if left is None or right is None:
        return FAULTY
    (left, right), _ = one_kind(ctx, left, right)
    if isinstance(left, Number) and isinstance(right, Number):
        return Truth(fold_compare(op, left.value, right.value), span)
    return ctx.measured(Compare(cast(CompareOp, op), left, right, span))


def invert(ctx: Context, value: Value, span: Span) -> Value:
    """`not x`."""
    operand = boolean(ctx, value, "`not`")
    if operand is None:
        return FAULTY
    if isinstance(operand, Truth):
        return Truth(not operand.value, span)
    return ctx.measured(Unary("not", operand, "bool", span))


def logic(ctx: Context, op: str, left_value: Value, right_value: Value, span: Span) -> Value:
    """`and` and `or`; a constant side is worked out."""
    left, right = boolean(ctx, left_value, f"`{op}`"), boolean(ctx, right_value, f"`{op}`")
    if left is None or right is None:
        return FAULTY
    decided = op == "or"  # `true or x` is true, `false and x` is false
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Truth):
            return Truth(decided, span) if side.value == decided else other
    return ctx.measured(Logic("and" if op == "and" else "or", left, right, span))


def choose(ctx: Context, condition: Value, if_true: Value, if_false: Value, span: Span) -> Value:
    """`A if C else B`."""
    test = boolean(ctx, condition, "`if`")
    sides = plain(ctx, if_true), plain(ctx, if_false)
    if test is None or sides[0] is None or sides[1] is None:
        return FAULTY
    kinds = [side.kind for side in sides if side is not None]
    if "bool" in kinds and kinds != ["bool", "bool"]:
        message = f"the two sides of `if` are {KIND_WORDS[kinds[0]]} and {KIND_WORDS[kinds[1]]}"
        ctx.faults.add("kind-mismatch", message, span)
        return FAULTY
    both, kind = ((sides[0], sides[1]), "bool") if kinds[0] == "bool" else one_kind(ctx, sides[0], sides[1])
    if isinstance(test, Truth):
        return both[0] if test.value else both[1]
    return ctx.measured(Select(test, both[0], both[1], cast(Kind, kind), span))


def labelled(expr: Expr, label: str) -> Expr:
    """The same value under the name that a person gave it."""
    return replace(expr, label=label)
