"""Ranges of integer expressions at given sizes, and a proof that none leaves 32 bits.

Indices run over ranges, so the proof is by interval arithmetic on Python's unbounded ints: sound, and conservative where
one index stands twice.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import product

from attnspec.language.diagnostics import Diagnostic
from attnspec.language.expr import INDICES, SIZES, Binary, Call, Expr, Name, Number, Read, Select, Unary, children, nodes
from attnspec.language.limits import MAX_INT, MIN_INT
from attnspec.language.spec import Tensor

Interval = tuple[int, int]  # inclusive
ANY: Interval = (MIN_INT, MAX_INT)
SMALL, LARGER = 2, 4096  # sizes that nobody's calls all keep below


def overflow_at_any_size(exprs: Iterable[Expr], tensors: Mapping[str, Tensor]) -> Diagnostic | None:
    """The fault of an int that may leave 32 bits in calls small and larger, whatever values are given."""
    found = [_overflow_at(list(exprs), tensors, size) for size in (LARGER, SMALL)]
    return found[-1] if all(found) else None


def _overflow_at(exprs: list[Expr], tensors: Mapping[str, Tensor], size: int) -> Diagnostic | None:
    sizes: dict[str, Interval] = dict.fromkeys(SIZES, (size, size))

    def values(name: str) -> Interval:
        low, high = tensors[name].low, tensors[name].high
        if low is None or high is None:
            return 0, 0
        return interval_of(low, sizes, {})[0], interval_of(high, sizes, {})[1]

    found = first_overflow(exprs, {**sizes, **dict.fromkeys(INDICES, (0, size - 1))}, values)
    return None if found is None else overflow_fault(*found, "whatever the sizes are")


def first_overflow(
    exprs: Iterable[Expr], names: Mapping[str, Interval], tensors: Callable[[str], Interval]
) -> tuple[Expr, Interval] | None:
    """An int of the expressions that may leave 32 bits, and its range.

    names: range of each given name. tensors: range of a tensor's values, asked only where an expression reads it.
    """
    done: dict[Expr, Interval] = {}
    for expr in exprs:
        for at in nodes(expr):
            if at.kind != "int" or at in done:
                continue
            found = step(at, names, {}, done, tensors)
            if found[0] < MIN_INT or found[1] > MAX_INT:
                return at, found
            done[at] = found
    return None


def overflow_fault(at: Expr, found: Interval, where: str) -> Diagnostic:
    """What a person is told of an int that may not fit."""
    message = f"this integer may be {found[0]}..{found[1]} {where}, which does not fit in 32 bits"
    of_floor = any(isinstance(part, Call) and part.function == "floor" for part in (at, *children(at)))
    help = "clamp what `floor` gives first: `clamp(floor(...), 0, 100)`" if of_floor else "divide first, or use floats"
    return Diagnostic("integer-overflow", message, at.span, help=help)


def interval_of(expr: Expr, names: Mapping[str, Interval], tensors: Mapping[str, Interval]) -> Interval:
    """Range of an int expression."""
    done: dict[Expr, Interval] = {}
    for at in nodes(expr):
        if at.kind == "int":
            done[at] = step(at, names, tensors, done, lambda tensor: ANY)
    return done[expr]


def step(
    at: Expr,
    names: Mapping[str, Interval],
    tensors: Mapping[str, Interval],
    done: Mapping[Expr, Interval],
    unknown: Callable[[str], Interval],
) -> Interval:
    """Range of one node over the ranges of its operands."""
    match at:
        case Number(value=value):
            return int(value), int(value)
        case Name(name=name):
            return names[name]
        case Read(tensor=tensor):
            return tensors[tensor] if tensor in tensors else unknown(tensor)
        case Unary(operand=operand):
            low, high = done[operand]
            return -high, -low
        case Binary(op=op, left=left, right=right):
            return arithmetic(op, done[left], done[right])
        case Select(if_true=if_true, if_false=if_false):
            return hull([*done[if_true], *done[if_false]])
        case Call(function="min" | "max" as function, arguments=(first, second)):
            pick = min if function == "min" else max
            (a, b), (c, d) = done[first], done[second]
            return pick(a, c), pick(b, d)
        case Call(function="abs", arguments=(only,)):
            low, high = done[only]
            return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        case _:
            return ANY  # floor saturates, and a search lies within an extent


def arithmetic(op: str, left: Interval, right: Interval) -> Interval:
    """Range of a binary operation; `<<` drops high bits and so never leaves 32 bits."""
    match op:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            return hull([a * b for a, b in product(left, right)])
        case "//":
            return hull([a // b for a, b in product(left, divisors(right))] or [0])
        case "%":
            return modulus(left, right)
        case ">>":
            amounts = (min(max(right[0], 0), 31), min(max(right[1], 0), 31)) if right[0] >= 0 else (0, 31)
            return hull([a >> b for a, b in product(left, amounts)])
        case "<<":
            low, high = hull([a << max(0, min(b, 64)) for a, b in product(left, right)])
            return (low, high) if right[0] >= 0 and low >= MIN_INT and high <= MAX_INT else ANY
        case _:
            return bits(op, left, right)


def divisors(right: Interval) -> list[int]:
    """The divisors at which a quotient is extreme; 0 is none (a quotient by 0 is 0)."""
    low, high = right
    return sorted({value for value in (low, high, -1, 1) if low <= value <= high and value != 0})


def modulus(left: Interval, right: Interval) -> Interval:
    """Range of a floored remainder: of the divisor's sign, and smaller."""
    if right[0] > 0 and left[0] >= 0 and left[1] < right[0]:
        return left
    return min(0, right[0] + 1), max(0, right[1] - 1)


def bits(op: str, left: Interval, right: Interval) -> Interval:
    """Range of `&`, `|`, `^`."""
    if left[0] < 0 or right[0] < 0:
        if op == "&" and max(left[0], right[0]) >= 0:
            return 0, max(left[1], right[1])
        width = max((end if end >= 0 else ~end).bit_length() for end in (*left, *right))
        return -(1 << width), (1 << width) - 1
    if op == "&":
        return 0, min(left[1], right[1])
    return 0, (1 << max(left[1], right[1]).bit_length()) - 1


def hull(values: list[int]) -> Interval:
    """The least range that holds the values."""
    return min(values), max(values)
