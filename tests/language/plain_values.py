"""The value of a typed expression in Python's numbers: a naive reading of what the nodes say, for the language's tests."""

import math
import operator
from collections.abc import Mapping

from attnspec.language import expr as e

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
FUNCTIONS = {
    "min": min,
    "max": max,
    "abs": abs,
    "floor": math.floor,
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


def value(expr: e.Expr, given: Mapping[str, float]) -> float:
    """given: values of the names, and of scalar tensors. The lazy side of a choice is not evaluated."""
    match expr:
        case e.Number() | e.Truth():
            return expr.value
        case e.Name():
            return given[expr.name]
        case e.Read(indices=()):
            return given[expr.tensor]
        case e.Unary():
            operand = value(expr.operand, given)
            return -operand if expr.op == "-" else not operand
        case e.Binary() | e.Compare():
            return OPERATORS[expr.op](value(expr.left, given), value(expr.right, given))
        case e.Logic():
            left = value(expr.left, given)
            return value(expr.right, given) if bool(left) == (expr.op == "and") else left
        case e.Select():
            return value(expr.if_true if value(expr.condition, given) else expr.if_false, given)
        case e.Call():
            return FUNCTIONS[expr.function](*(value(at, given) for at in expr.arguments))
        case e.Convert():
            return float(value(expr.operand, given))
    raise AssertionError(f"no value for {expr}")
