"""The built-in functions, on checked arguments."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from attnspec.language import fold, operators
from attnspec.language.context import Context
from attnspec.language.expr import Call, Expr, Kind, Number
from attnspec.language.source import Span
from attnspec.language.values import FAULTY, Value, is_expr

Build = Callable[[Context, str, tuple[Value, ...], Span], Value]


@dataclass(frozen=True)
class Builtin:
    """most: None for any number of arguments from `least`."""

    least: int
    most: int | None
    build: Build
    usage: str


def call(ctx: Context, function: str, arguments: tuple[Expr, ...], kind: Kind, span: Span) -> Value:
    """A node, or the constant that it is."""
    numbers = [at.value for at in arguments if isinstance(at, Number)]
    if len(numbers) == len(arguments):
        return operators.folded(ctx, span, kind, lambda: fold.call(function, *numbers))
    return ctx.measured(Call(function, arguments, kind, span))


def _least_or_most(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    """min and max: of two at a time, of one kind throughout."""
    found = [operators.number(ctx, value, f"`{function}`") for value in values]
    sure = [at for at in found if at is not None]
    if len(sure) < len(found):
        return FAULTY
    same, kind = operators.one_kind(ctx, *sure)

    def join(left: Value, right: Value) -> Value:
        return call(ctx, function, (left, right), kind, span) if is_expr(left) and is_expr(right) else FAULTY

    return reduce(join, same)


def _abs(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    operand = operators.number(ctx, values[0], "`abs`")
    return FAULTY if operand is None else call(ctx, "abs", (operand,), operand.kind, span)


def _floor(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    operand = operators.number(ctx, values[0], "`floor`")
    return FAULTY if operand is None else call(ctx, "floor", (operators.as_float(ctx, operand),), "int", span)


def _of_float(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    operand = operators.number(ctx, values[0], f"`{function}`")
    return FAULTY if operand is None else call(ctx, function, (operators.as_float(ctx, operand),), "float", span)


def _float(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    operand = operators.number(ctx, values[0], "`float`")
    return FAULTY if operand is None else operators.as_float(ctx, operand)


def _clamp(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    _, low, high = values
    if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
        message = f"clamp has its low end {low.value} above its high end {high.value}"
        ctx.faults.add("argument-out-of-range", message, span, help="write `clamp(x, LOW, HIGH)`")
        return FAULTY
    found = [operators.number(ctx, value, "`clamp`") for value in values]
    sure = [at for at in found if at is not None]
    if len(sure) < 3:
        return FAULTY
    (operand, low, high), _ = operators.one_kind(ctx, *sure)
    above = _least_or_most(ctx, "max", (operand, low), span)
    return _least_or_most(ctx, "min", (above, high), span)


def _where(ctx: Context, function: str, values: tuple[Value, ...], span: Span) -> Value:
    condition, if_true, if_false = values
    return operators.choose(ctx, condition, if_true, if_false, span)


BUILTINS: dict[str, Builtin] = {
    "min": Builtin(2, None, _least_or_most, "min(a, b, ...)"),
    "max": Builtin(2, None, _least_or_most, "max(a, b, ...)"),
    "abs": Builtin(1, 1, _abs, "abs(x)"),
    "floor": Builtin(1, 1, _floor, "floor(x)"),
    "float": Builtin(1, 1, _float, "float(x)"),
    "clamp": Builtin(3, 3, _clamp, "clamp(x, low, high)"),
    "where": Builtin(3, 3, _where, "where(condition, if_true, if_false)"),
    **{name: Builtin(1, 1, _of_float, f"{name}(x)") for name in ("exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "rsqrt")},
}


def apply_builtin(ctx: Context, name: str, arguments: tuple[Value, ...], span: Span) -> Value:
    """A call of a built-in function."""
    builtin = BUILTINS[name]
    given = len(arguments)
    if given < builtin.least or (builtin.most is not None and given > builtin.most):
        wanted = f"{builtin.least}" if builtin.most is not None else f"{builtin.least} or more"
        message = f"`{name}` takes {wanted} argument{'s' if builtin.least != 1 else ''}, {given} given"
        ctx.faults.add("wrong-argument-count", message, span, help=f"write `{builtin.usage}`")
        return FAULTY
    return builtin.build(ctx, name, arguments, span)
