"""What operations give for constants."""

import math
from collections.abc import Callable

from attnspec.language.expr import Expr, Kind, Number

OPPOSITE = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}
INT_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b if 0 <= b < 32 else 2**40,
    ">>": lambda a, b: a >> b if 0 <= b < 32 else 2**40,
}
FLOAT_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}
FLOAT_CALLS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "exp2": math.exp2,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


def number(value: int | float, kind: Kind) -> Number:
    """A constant of a kind."""
    return Number(int(value) if kind == "int" else float(value), kind)


def fits(value: float) -> bool:
    """Is it a 32-bit signed integer's value?"""
    return -(2**31) <= value < 2**31


def known(value: float, at: Expr) -> Expr:
    """A float constant in place of a node; -0.0 stays as it is written, because as a constant it would equal 0.0."""
    return at if value == 0 and math.copysign(1, value) < 0 else number(value, "float")
