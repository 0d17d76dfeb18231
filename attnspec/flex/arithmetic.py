"""Torch's elementwise functions as expressions, each built by the checker's own operators."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from attnspec.flex.refuse import refuse
from attnspec.language import operators
from attnspec.language.context import Context
from attnspec.language.expr import Binary, Call, Convert, Expr, Kind, Number, Truth
from attnspec.language.functions import apply_builtin
from attnspec.language.linear import Linear
from attnspec.language.source import NOWHERE, Span
from attnspec.language.values import Value, is_expr

# An int made of a float is kept below this, so that what is added to it is seen to stay inside 32 bits.
MOST_INT = 2**30
Result = Literal["number", "same", "bool", "int", "float"]


@dataclass(frozen=True)
class Build:
    """Expressions at one place of the caller's."""

    ctx: Context
    span: Span

    def sure(self, value: Value) -> Expr:
        """What an operator gave; what it found wrong stops the tracing, here if it is about a name that has no place."""
        found = self.ctx.faults.found
        found[:] = [fault if fault.span != NOWHERE else replace(fault, span=self.span) for fault in found]
        self.ctx.faults.stop_if_any()
        assert is_expr(value)
        return value

    def number(self, value: float) -> Expr:
        """A constant."""
        return Number(value, "int" if isinstance(value, int) else "float", self.span)

    def binary(self, op: str, left: Expr, right: Expr) -> Expr:
        """Arithmetic; what adds 0 or multiplies by 1 is left out."""
        left, right = self.as_number(left), self.as_number(right)
        neutral = {"+": 0, "-": 0, "*": 1}.get(op)
        sides = ((left, right), (right, left)) if op != "-" else ((left, right),)
        for kept, other in sides if neutral is not None else ():
            if isinstance(other, Number) and other.value == neutral and not isinstance(kept, Number):
                return self.as_float(kept) if other.kind == "float" else kept
        return self.sure(operators.binary(self.ctx, op, left, right, self.span))

    def call(self, name: str, *arguments: Expr) -> Expr:
        """One of the language's functions."""
        return self.sure(apply_builtin(self.ctx, name, tuple(map(self.as_number, arguments)), self.span))

    def compare(self, op: str, left: Expr, right: Expr) -> Expr:
        """A comparison."""
        if left.kind == right.kind == "bool" and op in ("==", "!="):
            return self.differ(left, right) if op == "!=" else self.invert(self.differ(left, right))
        return self.sure(operators.comparison(self.ctx, op, self.as_number(left), self.as_number(right), self.span))

    def logic(self, op: str, left: Expr, right: Expr) -> Expr:
        """`and`, `or`."""
        return self.sure(operators.logic(self.ctx, op, self.as_bool(left), self.as_bool(right), self.span))

    def invert(self, operand: Expr) -> Expr:
        """`not`."""
        return self.sure(operators.invert(self.ctx, self.as_bool(operand), self.span))

    def differ(self, left: Expr, right: Expr) -> Expr:
        """Exclusive or of conditions."""
        one = self.logic("and", left, self.invert(right))
        return self.logic("or", one, self.logic("and", self.invert(left), right))

    def choose(self, condition: Expr, if_true: Expr, if_false: Expr) -> Expr:
        """The side that a condition picks."""
        if "bool" in (if_true.kind, if_false.kind) and if_true.kind != if_false.kind:
            if_true, if_false = self.as_number(if_true), self.as_number(if_false)
        if isinstance(if_true, Truth) or isinstance(if_false, Truth):
            return self._choose_truth(condition, if_true, if_false)
        return self.sure(operators.choose(self.ctx, self.as_bool(condition), if_true, if_false, self.span))

    def _choose_truth(self, condition: Expr, if_true: Expr, if_false: Expr) -> Expr:
        """`where(c, x, False)` is `c and x`, and so on."""
        if isinstance(if_false, Truth):
            if not if_false.value:
                return self.logic("and", condition, if_true)
            return self.logic("or", self.invert(condition), if_true)
        is_true = isinstance(if_true, Truth) and if_true.value
        return self.logic("or", condition, if_false) if is_true else self.logic("and", self.invert(condition), if_false)

    def as_number(self, expr: Expr) -> Expr:
        """A condition as 1 or 0, as torch counts it."""
        if expr.kind != "bool":
            return expr
        if isinstance(expr, Truth):
            return self.number(int(expr.value))
        return self.sure(operators.choose(self.ctx, expr, self.number(1), self.number(0), self.span))

    def as_bool(self, expr: Expr) -> Expr:
        """A number as whether it is not 0."""
        return expr if expr.kind == "bool" else self.compare("!=", expr, self.number(0))

    def as_float(self, expr: Expr) -> Expr:
        """A number as f32."""
        return operators.as_float(self.ctx, self.as_number(expr))

    def as_int(self, expr: Expr) -> Expr:
        """A number without its fraction, toward 0."""
        expr = self.as_number(expr)
        if isinstance(expr, Convert):
            return expr.operand
        if expr.kind == "int":
            return expr
        most, zero = self.number(MOST_INT), self.number(0)
        down = self.call("min", self.call("max", self.call("floor", expr), zero), most)
        if self.is_never_negative(expr):
            return down
        up = self.call("min", self.call("max", self.call("floor", self.negate(expr)), zero), most)
        return self.choose(self.compare(">=", expr, self.number(0.0)), down, self.negate(up))

    def is_never_negative(self, expr: Expr) -> bool:
        """Whether a number's form shows that it is not below 0."""
        match expr:
            case Number():
                return expr.value >= 0
            case Convert():
                return self.ctx.ranges.of(expr.operand).is_at_least(Linear(0))
            case Call(function="abs" | "exp" | "exp2" | "sqrt" | "rsqrt" | "sigmoid"):
                return True
            case Call(function="max"):
                return any(map(self.is_never_negative, expr.arguments))
            case Call(function="min"):
                return all(map(self.is_never_negative, expr.arguments))
            case Binary(op="+" | "*" | "/"):
                return self.is_never_negative(expr.left) and self.is_never_negative(expr.right)
            case _:
                return False

    def negate(self, expr: Expr) -> Expr:
        """`-x`."""
        return self.sure(operators.negate(self.ctx, self.as_number(expr), self.span))


def floor(at: Build, x: Expr) -> Expr:
    """The float below; an int is its own."""
    return x if at.as_number(x).kind == "int" else at.as_float(at.call("floor", x))


def ceil(at: Build, x: Expr) -> Expr:
    return x if at.as_number(x).kind == "int" else at.as_float(at.negate(at.call("floor", at.negate(x))))


def trunc(at: Build, x: Expr) -> Expr:
    return x if at.as_number(x).kind == "int" else at.as_float(at.as_int(x))


def floor_divide(at: Build, x: Expr, y: Expr) -> Expr:
    if at.as_number(x).kind == at.as_number(y).kind == "int":
        return at.binary("//", x, y)
    return floor(at, at.binary("/", x, y))


def remainder(at: Build, x: Expr, y: Expr) -> Expr:
    if at.as_number(x).kind == at.as_number(y).kind == "int":
        return at.binary("%", x, y)
    return at.binary("-", x, at.binary("*", y, floor(at, at.binary("/", x, y))))


def power(at: Build, x: Expr, y: Expr) -> Expr:
    """Squares, roots and powers of a constant; another power has no expression that is right for every base."""
    if isinstance(y, Number):
        if y.kind == "int" or float(y.value).is_integer():
            return _whole_power(at, x, int(y.value))
        if y.value in (0.5, -0.5):
            return at.call("sqrt" if y.value > 0 else "rsqrt", x)
    if isinstance(x, Number) and x.value > 0:
        return at.call("exp2", y) if x.value == 2 else at.call("exp2", at.binary("*", y, at.number(math.log2(x.value))))
    help = "for a base that is never negative write `torch.exp(y * torch.log(x))`"
    refuse("unknown-power", "this power has neither a whole exponent nor a constant base above 0", help)


def _whole_power(at: Build, x: Expr, exponent: int) -> Expr:
    if abs(exponent) > 16:
        refuse("unknown-power", f"a power of {exponent} would be written out as that many products", "use `torch.exp`")
    if exponent < 0:
        return at.binary("/", at.number(1.0), _whole_power(at, x, -exponent))
    if exponent == 0:
        return at.number(1 if at.as_number(x).kind == "int" else 1.0)
    half = _whole_power(at, x, exponent // 2) if exponent > 1 else None
    square = at.binary("*", half, half) if half is not None else x
    return at.binary("*", square, x) if exponent % 2 and half is not None else square


def sign(at: Build, x: Expr) -> Expr:
    zero, one = (at.number(0), at.number(1)) if at.as_number(x).kind == "int" else (at.number(0.0), at.number(1.0))
    below = at.choose(at.compare("<", x, zero), at.negate(one), zero)
    return at.choose(at.compare(">", x, zero), one, below)


def softplus(at: Build, x: Expr) -> Expr:
    """log(1 + exp(x)) without overflow."""
    small = at.call("exp", at.negate(at.call("abs", x)))
    return at.binary("+", at.call("max", x, at.number(0.0)), at.call("log", at.binary("+", at.number(1.0), small)))


def gelu_tanh(at: Build, x: Expr) -> Expr:
    cube = at.binary("*", at.binary("*", x, x), x)
    inner = at.binary("+", x, at.binary("*", at.number(0.044715), cube))
    bent = at.call("tanh", at.binary("*", at.number(math.sqrt(2 / math.pi)), inner))
    return at.binary("*", at.binary("*", at.number(0.5), x), at.binary("+", at.number(1.0), bent))


def bits(word: str, op: str) -> Callable[..., Expr]:
    """`&` and `|` of conditions or of ints."""

    def build(at: Build, x: Expr, y: Expr) -> Expr:
        if x.kind == y.kind == "bool":
            return at.logic(word, x, y)
        return at.binary(op, x, y)

    return build


def exclusive(at: Build, x: Expr, y: Expr) -> Expr:
    return at.differ(x, y) if x.kind == y.kind == "bool" else at.binary("^", x, y)


def invert(at: Build, x: Expr) -> Expr:
    """`~`: of a condition its opposite, of an int all bits turned."""
    return at.invert(x) if x.kind == "bool" else at.binary("-", at.negate(x), at.number(1))


def absolute(at: Build, x: Expr) -> Expr:
    return at.call("abs", x)


def of_function(name: str) -> Callable[..., Expr]:
    """One of the language's functions as it is."""
    return lambda at, *operands: at.call(name, *operands)


def of_operator(op: str) -> Callable[..., Expr]:
    return lambda at, x, y: at.binary(op, x, y)


def of_comparison(op: str) -> Callable[..., Expr]:
    return lambda at, x, y: at.compare(op, x, y)


def scaled(name: str, factor: float) -> Callable[..., Expr]:
    """A function of the language times a number."""
    return lambda at, x: at.binary("*", at.call(name, x), at.number(factor))


def result_kind(result: Result, kinds: tuple[Kind, ...]) -> Kind:
    """The kind that an operation gives of operands of some kinds."""
    if result == "same":
        return "bool" if set(kinds) == {"bool"} else result_kind("number", kinds)
    if result == "number":
        return "float" if "float" in kinds else "int"
    return result


ELEMENTWISE: dict[str, tuple[int, Callable[..., Expr], Result]] = {
    "add": (2, of_operator("+"), "number"),
    "sub": (2, of_operator("-"), "number"),
    "mul": (2, of_operator("*"), "number"),
    "div": (2, of_operator("/"), "float"),
    "floor_divide": (2, floor_divide, "number"),
    "remainder": (2, remainder, "number"),
    "pow": (2, power, "number"),
    "neg": (1, lambda at, x: at.negate(x), "number"),
    "pos": (1, lambda at, x: x, "same"),
    "abs": (1, absolute, "number"),
    "sign": (1, sign, "number"),
    "eq": (2, of_comparison("=="), "bool"),
    "ne": (2, of_comparison("!="), "bool"),
    "lt": (2, of_comparison("<"), "bool"),
    "le": (2, of_comparison("<="), "bool"),
    "gt": (2, of_comparison(">"), "bool"),
    "ge": (2, of_comparison(">="), "bool"),
    "bitwise_and": (2, bits("and", "&"), "same"),
    "bitwise_or": (2, bits("or", "|"), "same"),
    "bitwise_xor": (2, exclusive, "same"),
    "bitwise_not": (1, invert, "same"),
    "lshift": (2, of_operator("<<"), "int"),
    "rshift": (2, of_operator(">>"), "int"),
    "logical_and": (2, lambda at, x, y: at.logic("and", x, y), "bool"),
    "logical_or": (2, lambda at, x, y: at.logic("or", x, y), "bool"),
    "logical_xor": (2, lambda at, x, y: at.differ(at.as_bool(x), at.as_bool(y)), "bool"),
    "logical_not": (1, lambda at, x: at.invert(x), "bool"),
    "isinf": (1, lambda at, x: at.compare("==", at.call("abs", x), at.number(math.inf)), "bool"),
    "minimum": (2, of_function("min"), "number"),
    "maximum": (2, of_function("max"), "number"),
    "where": (3, lambda at, c, x, y: at.choose(c, x, y), "same"),
    "floor": (1, floor, "number"),
    "ceil": (1, ceil, "number"),
    "trunc": (1, trunc, "number"),
    "exp": (1, of_function("exp"), "float"),
    "exp2": (1, of_function("exp2"), "float"),
    "expm1": (1, lambda at, x: at.binary("-", at.call("exp", x), at.number(1.0)), "float"),
    "log": (1, of_function("log"), "float"),
    "log2": (1, scaled("log", 1 / math.log(2)), "float"),
    "log10": (1, scaled("log", 1 / math.log(10)), "float"),
    "log1p": (1, lambda at, x: at.call("log", at.binary("+", at.number(1.0), x)), "float"),
    "tanh": (1, of_function("tanh"), "float"),
    "sigmoid": (1, of_function("sigmoid"), "float"),
    "sqrt": (1, of_function("sqrt"), "float"),
    "rsqrt": (1, of_function("rsqrt"), "float"),
    "square": (1, lambda at, x: at.binary("*", x, x), "number"),
    "reciprocal": (1, lambda at, x: at.binary("/", at.number(1.0), x), "float"),
    "relu": (1, lambda at, x: at.call("max", x, at.number(0)), "number"),
    "silu": (1, lambda at, x: at.binary("*", x, at.call("sigmoid", x)), "float"),
    "softplus": (1, softplus, "float"),
    "gelu_tanh": (1, gelu_tanh, "float"),
    "float": (1, lambda at, x: at.as_float(x), "float"),
    "int": (1, lambda at, x: at.as_int(x), "int"),
    "bool": (1, lambda at, x: at.as_bool(x), "bool"),
}


def build(name: str, ctx: Context, span: Span, operands: tuple[Expr, ...]) -> Expr:
    """An elementwise operation on expressions."""
    at = Build(ctx, span)
    if name == "where":
        condition, if_true, if_false = operands
        return at.choose(at.as_bool(condition), if_true, if_false)
    return ELEMENTWISE[name][1](at, *operands)
