"""Arithmetic on constants: what the checker works out before a kernel is made."""

import math
from collections.abc import Callable

from attnspec.language.limits import MAX_FLOAT, MAX_INT, MIN_INT

Scalar = int | float


class FoldError(Exception):
    """A constant expression has no value: `name` and message of the fault."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name, self.message = name, message


def checked(value: Scalar) -> Scalar:
    """The value if its kind can hold it."""
    if isinstance(value, int):
        if not MIN_INT <= value <= MAX_INT:
            raise FoldError("integer-out-of-range", f"the value {_short(value)} does not fit a 32-bit integer")
    elif not abs(value) <= MAX_FLOAT:
        raise FoldError("float-out-of-range", f"the value {value} is not a finite f32 number")
    return value


def _short(value: int) -> str:
    return str(value) if abs(value) < 2**63 else "of more than 64 bits"


def arithmetic(op: str, left: Scalar, right: Scalar) -> Scalar:
    """The value of an operator on two constants of one kind; `/` on floats."""
    if op in ("/", "//", "%") and right == 0:
        raise FoldError("division-by-zero", "this divides by zero")
    if op in ("<<", ">>") and not 0 <= right <= 31:
        raise FoldError("shift-out-of-range", f"a shift by {right} is not in 0..31")
    return checked(_OPERATORS[op](left, right))


def call(function: str, *arguments: Scalar) -> Scalar:
    """The value of a built-in function on constants."""
    try:
        return checked(_FUNCTIONS[function](*arguments))
    except (ValueError, OverflowError, ZeroDivisionError):
        shown = ", ".join(str(value) for value in arguments)
        raise FoldError("function-out-of-range", f"{function}({shown}) has no finite value") from None


def compare(op: str, left: Scalar, right: Scalar) -> bool:
    """The truth of a comparison of two constants."""
    return _COMPARISONS[op](left, right)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _floor(x: float) -> int:
    """Saturates, as the kernel's conversion does."""
    return max(MIN_INT, min(MAX_INT, math.floor(x))) if math.isfinite(x) else (MAX_INT if x > 0 else MIN_INT)


_OPERATORS: dict[str, Callable[..., Scalar]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}
_FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
    "abs": lambda x: abs(x),
    "floor": _floor,
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}
_COMPARISONS: dict[str, Callable[[Scalar, Scalar], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}
