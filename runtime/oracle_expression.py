"""Expressions in float64 numpy, with their derivatives by dual numbers: the half of the oracle that reads the language.

Written from the language's definition alone and sharing nothing with the analyses, so that a fault there shows here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnspec.language.expr import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Logic,
    Name,
    Number,
    Read,
    Select,
    Truth,
    Unary,
)

Array = Any  # a numpy array or scalar of float64, int64 or bool


@dataclass(frozen=True)
class Dual:
    """A value and its slope along each seed; a seed that is not there has slope 0.

    A seed is the node a derivative is taken by: Name("score"), or one `Read` of a learned tensor.
    """

    value: Array
    slopes: Mapping[Expr, Array] = field(default_factory=dict)


# Slope of a function at x, given y = f(x).
SLOPES: dict[str, Callable[[Array, Array], Array]] = {
    "abs": lambda x, y: np.sign(x),
    "exp": lambda x, y: y,
    "exp2": lambda x, y: y * np.log(2.0),
    "log": lambda x, y: 1.0 / x,
    "tanh": lambda x, y: 1.0 - y * y,
    "sigmoid": lambda x, y: y * (1.0 - y),
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: -0.5 * y / x,
}
TANH_ERROR = 2.0**-11  # of its value, at most, on a GPU (PTX ISA, tanh.approx.f32)
# What that error comes to, in functions that a GPU makes of tanh, by their value: sigmoid(x) is (1 + tanh(x / 2)) / 2.
APPROXIMATED: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda y: TANH_ERROR * y,
    "sigmoid": lambda y: TANH_ERROR * (y - 0.5),
}
VALUES: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}


def evaluate(
    expr: Expr,
    given: Mapping[str, Array | Dual],
    tensors: Mapping[str, Array],
    learned: frozenset[str] = frozenset(),
    off: Expr | None = None,
) -> Dual:
    """Value of an expression where the given names have these values (arrays broadcast), and its slopes.

    given: every name the expression uses; `score` may come as a Dual. tensors: arrays by declared name.
    learned: tensors whose reads are seeds. off: a call of an approximated function, whose value is off by as much as it may be.
    """
    done: dict[Expr, Dual] = {}

    def visit(at: Expr) -> Dual:
        if at not in done:
            done[at] = step(at)
        return done[at]

    def step(at: Expr) -> Dual:
        match at:
            case Number(value=value, kind=kind):
                return Dual(np.float64(np.float32(value)) if kind == "float" else np.int64(value))
            case Truth(value=value):
                return Dual(np.bool_(value))
            case Name(name=name):
                found = given[name]
                return found if isinstance(found, Dual) else Dual(found)
            case Read(tensor=tensor, indices=indices):
                value = element(tensors[tensor], tuple(visit(index).value for index in indices))
                return Dual(value, {at: np.ones_like(value)} if tensor in learned else {})
            case Unary(op="-"):
                return chain(visit(at.operand), np.negative, lambda x, y: -1.0)
            case Unary():
                return Dual(np.logical_not(visit(at.operand).value))
            case Binary():
                return arithmetic(at.op, at.kind, visit(at.left), visit(at.right))
            case Compare():
                return Dual(COMPARE[at.op](visit(at.left).value, visit(at.right).value))
            case Logic():
                join = np.logical_and if at.op == "and" else np.logical_or
                return Dual(join(visit(at.left).value, visit(at.right).value))
            case Select():
                return choose(visit(at.condition).value, visit(at.if_true), visit(at.if_false))
            case Call():
                return call(at.function, [visit(argument) for argument in at.arguments], at == off)
            case Convert():
                return Dual(np.asarray(visit(at.operand).value, dtype=np.float64))
            case _:
                raise TypeError(f"the oracle has no meaning for {type(at).__name__}")

    with np.errstate(all="ignore"):
        return visit(expr)


def element(tensor: Array, indices: tuple[Array, ...]) -> Array:
    """Elements of a tensor; an index outside the extent is moved to the nearest end, as in compiled code; none read as 0."""
    if tensor.size == 0:
        return np.zeros(np.broadcast_shapes(*map(np.shape, indices)), dtype=tensor.dtype)
    clipped = tuple(np.clip(index, 0, max(extent - 1, 0)) for index, extent in zip(indices, tensor.shape, strict=True))
    return tensor[clipped] if clipped else tensor[()]


def chain(x: Dual, function: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Dual:
    """The chain rule for a function of one value."""
    value = function(x.value)
    return Dual(value, {seed: by * slope(x.value, value) for seed, by in x.slopes.items()})


def combine(value: Array, left: Dual, by_left: Array, right: Dual, by_right: Array) -> Dual:
    """The chain rule for a function of two values, with its two partial derivatives."""
    slopes: dict[Expr, Array] = {seed: by * by_left for seed, by in left.slopes.items()}
    for seed, by in right.slopes.items():
        slopes[seed] = slopes.get(seed, 0.0) + by * by_right
    return Dual(value, slopes)


def choose(condition: Array, if_true: Dual, if_false: Dual) -> Dual:
    """Values and slopes from one side or the other; the side not taken adds nothing, not even a NaN."""
    seeds = {**if_true.slopes, **if_false.slopes}
    slopes = {seed: np.where(condition, if_true.slopes.get(seed, 0.0), if_false.slopes.get(seed, 0.0)) for seed in seeds}
    return Dual(np.where(condition, if_true.value, if_false.value), slopes)


def call(function: str, arguments: list[Dual], is_off: bool = False) -> Dual:
    """One of the language's functions. is_off: an approximated one, off by as much as it may be, and its slope with it."""
    if function == "floor":
        value = np.nan_to_num(np.floor(arguments[0].value), nan=0.0, posinf=2**31 - 1, neginf=-(2**31))
        return Dual(np.clip(value, -(2**31), 2**31 - 1).astype(np.int64))
    if function in ("min", "max"):
        left, right = arguments
        takes_left = left.value <= right.value if function == "min" else left.value >= right.value
        pick = np.minimum if function == "min" else np.maximum
        return Dual(pick(left.value, right.value), choose(takes_left, left, right).slopes)
    value, error = VALUES[function], APPROXIMATED.get(function)
    if is_off and error is not None:
        return chain(arguments[0], lambda x: value(x) + error(value(x)), SLOPES[function])
    return chain(arguments[0], value, SLOPES[function])


def arithmetic(op: str, kind: str, left: Dual, right: Dual) -> Dual:
    """One of the language's operators; ints are exact, except that `<<` drops what leaves 32 bits."""
    a, b = left.value, right.value
    match op:
        case "+":
            return combine(a + b, left, 1.0, right, 1.0)
        case "-":
            return combine(a - b, left, 1.0, right, -1.0)
        case "*":
            return combine(a * b, left, b, right, a)
        case "/":
            return combine(a / b, left, 1.0 / b, right, -a / (b * b))
        case "//":
            return Dual(np.floor_divide(a, b))
        case "%":
            quotient = np.floor_divide(a, b) if kind == "float" else 0
            return combine(np.remainder(a, b), left, 1.0, right, -quotient)
        case _:
            return Dual(bits(op, np.asarray(a), np.asarray(b)))


def bits(op: str, a: Array, b: Array) -> Array:
    """Bit operations on 32-bit two's complement numbers; shifts by 32 or more give 0 (or the sign, to the right)."""
    match op:
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
    amount = np.where((b < 0) | (b > 31), 32, b)
    shifted = a << amount if op == "<<" else a >> amount
    return ((shifted + 2**31) % 2**32) - 2**31
