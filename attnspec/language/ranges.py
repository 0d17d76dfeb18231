"""Ranges of integer expressions, with ends that are linear forms in sizes and indices.

Every range holds for the 32-bit value: where an operation might leave 32 bits (at the LARGEST sizes), nothing is known of
its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attnspec.language.expr import Binary, Call, Expr, Name, Number, Read, Select, Unary
from attnspec.language.limits import MAX_INT, MIN_INT
from attnspec.language.linear import (
    Linear,
    extreme,
    floor_divide,
    is_never_positive,
    most,
    name,
    show_linear,
    weight,
    without_indices,
)
from attnspec.language.spec import Tensor

MAX_CANDIDATES = 6  # forms kept at each end
MAX_WEIGHT = 24  # atoms of a form: each `%` writes its left side twice, so a tower of them doubles at each step


@dataclass(frozen=True)
class Range:
    """Every form in `lows` is a lower bound and every form in `highs` an upper bound, both inclusive; none: unknown."""

    lows: tuple[Linear, ...] = ()
    highs: tuple[Linear, ...] = ()

    @property
    def exact(self) -> Linear | None:
        """The value itself, where it is one linear form."""
        return next((form for form in self.lows if form in self.highs), None)

    @property
    def number(self) -> int | None:
        """The value, where it is one number."""
        form = self.exact
        return form.constant if form is not None and not form.terms else None

    def is_at_least(self, form: Linear) -> bool:
        """Proved: the value is never below the form."""
        return any(is_never_positive(form - low) for low in self.lows)

    def is_at_most(self, form: Linear) -> bool:
        """Proved: the value is never above the form."""
        return any(is_never_positive(high - form) for high in self.highs)


UNKNOWN = Range()


def between(low: int, high: int) -> Range:
    """A range with numbers as its ends."""
    return Range((Linear(low),), (Linear(high),))


def exactly(form: Linear) -> Range:
    """The range of a value that is a linear form."""
    return Range((form,), (form,))


@dataclass
class Ranges:
    """Ranges of int expressions of one file, each found once.

    trusts: indices are inside their sizes, and what tensors hold inside the range declared for it; if not, nothing is known of
    either, nor of sizes.
    """

    tensors: Mapping[str, Tensor]
    trusts: bool = True

    def __post_init__(self) -> None:
        self._known: dict[Expr, Range] = {}

    def of(self, expr: Expr) -> Range:
        """The range of an int expression."""
        if expr not in self._known:
            self._known[expr] = _fit(self._find(expr))
        return self._known[expr]

    def form(self, expr: Expr) -> Linear | None:
        """The linear form that an expression in sizes is; None if it is not linear."""
        return self.of(expr).exact

    def _find(self, expr: Expr) -> Range:
        match expr:
            case Number(value=int() as value):
                return between(value, value)
            case Name() | Read() if not self.trusts:
                return UNKNOWN
            case Name():
                return exactly(name(expr.name))
            case Read():
                return self._declared(self.tensors[expr.tensor])
            case Unary():
                operand = self.of(expr.operand)
                return _negate(operand) if operand.lows else UNKNOWN  # the least 32-bit integer is its own negation
            case Binary():
                return _BINARY[expr.op](self.of(expr.left), self.of(expr.right))
            case Select():
                return union(self.of(expr.if_true), self.of(expr.if_false))
            case Call(function="min"):
                return _least(*map(self.of, expr.arguments))
            case Call(function="max"):
                return _most(*map(self.of, expr.arguments))
            case Call(function="abs"):
                return _absolute(self.of(expr.arguments[0]))
            case _:
                return UNKNOWN

    def _declared(self, tensor: Tensor) -> Range:
        low = self.of(tensor.low).lows if tensor.low is not None else ()
        high = self.of(tensor.high).highs if tensor.high is not None else ()
        return Range(low, high)

    def show(self, expr: Expr) -> str:
        """The range in words, ends in sizes."""
        found = self.of(expr)
        low = _shortest(found.lows, upper=False) or "no lower bound"
        high = _shortest(found.highs, upper=True) or "no upper bound"
        return "any 32-bit integer" if not found.lows and not found.highs else f"{low} .. {high}"


def _shortest(forms: tuple[Linear, ...], upper: bool) -> str:
    shown = {show_linear(without_indices(form, upper)) for form in forms}
    return min(shown, key=lambda text: (len(text), text), default="")


def _fit(found: Range) -> Range:
    """The range if its values stay in 32 bits, else nothing; the candidates cut to a few."""
    if found.highs and not any(extreme(form, True) <= MAX_INT for form in found.highs):
        return UNKNOWN
    if found.lows and not any(extreme(form, False) >= MIN_INT for form in found.lows):
        return UNKNOWN
    return Range(_distinct(_light(found.lows, False)), _distinct(_light(found.highs, True)))


def _light(forms: tuple[Linear, ...], upper: bool) -> tuple[Linear, ...]:
    """The forms, those that grew too large replaced by the number that they cannot pass."""
    return tuple(form if weight(form) <= MAX_WEIGHT else Linear(extreme(form, upper)) for form in forms)


def _distinct(forms: tuple[Linear, ...]) -> tuple[Linear, ...]:
    """A few of the forms, numbers and short ones first."""
    return tuple(sorted(dict.fromkeys(forms), key=lambda form: len(form.terms))[:MAX_CANDIDATES])


def _pairs(one: tuple[Linear, ...], other: tuple[Linear, ...]) -> tuple[Linear, ...]:
    return tuple(left + right for left in one for right in other)


def _bounded(left: Range, right: Range) -> bool:
    """Both ends of both are known: without that, a sum may wrap."""
    return all((left.lows, left.highs, right.lows, right.highs))


def _add(left: Range, right: Range) -> Range:
    return Range(_pairs(left.lows, right.lows), _pairs(left.highs, right.highs)) if _bounded(left, right) else UNKNOWN


def _negate(at: Range) -> Range:
    return Range(tuple(form.times(-1) for form in at.highs), tuple(form.times(-1) for form in at.lows))


def _subtract(left: Range, right: Range) -> Range:
    return _add(left, _negate(right))


def _multiply(left: Range, right: Range) -> Range:
    if not _bounded(left, right):
        return UNKNOWN
    factor, other = (left.number, right) if left.number is not None else (right.number, left)
    if factor is not None:
        scaled = Range(*(tuple(form.times(factor) for form in forms) for forms in (other.lows, other.highs)))
        return scaled if factor >= 0 else Range(scaled.highs, scaled.lows)
    corners = [
        one * two for one in (_number(left, False), _number(left, True)) for two in (_number(right, False), _number(right, True))
    ]
    return between(min(corners), max(corners))


def _number(at: Range, upper: bool) -> int:
    """The tightest number at one end, at the LARGEST sizes; the end of 32 bits where nothing is known."""
    values = [extreme(form, upper) for form in (at.highs if upper else at.lows)]
    return min([*values, MAX_INT]) if upper else max([*values, MIN_INT])


def _floor_divide(left: Range, right: Range) -> Range:
    divisor = right.number
    if divisor is not None and divisor > 0:
        return Range(*(tuple(floor_divide(form, divisor) for form in forms) for forms in (left.lows, left.highs)))
    if divisor is not None and divisor < 0:
        return _floor_divide(_negate(left), between(-divisor, -divisor)) if _bounded(left, left) else UNKNOWN
    if left.is_at_least(Linear(0)) and right.is_at_least(Linear(1)):
        return Range((Linear(0),), left.highs)
    return UNKNOWN


def _modulo(left: Range, right: Range) -> Range:
    divisor = right.number
    if divisor is not None and divisor > 0:
        exact = left.exact
        rest = () if exact is None else (exact - floor_divide(exact, divisor).times(divisor),)
        return Range((*rest, Linear(0)), (*rest, Linear(divisor - 1)))
    if right.is_at_least(Linear(1)):
        above = tuple(form.plus(-1) for form in right.highs)
        return Range((Linear(0),), above + (left.highs if left.is_at_least(Linear(0)) else ()))
    if right.is_at_most(Linear(-1)):
        return Range(tuple(form.plus(1) for form in right.lows), (Linear(0),))
    return UNKNOWN


def _shift_left(left: Range, right: Range) -> Range:
    amount = right.number
    return _multiply(left, between(2**amount, 2**amount)) if amount is not None and 0 <= amount < 32 else UNKNOWN


def _shift_right(left: Range, right: Range) -> Range:
    amount = right.number
    if amount is not None and 0 <= amount < 32:
        return _floor_divide(left, between(2**amount, 2**amount))
    return Range((Linear(0),), left.highs) if left.is_at_least(Linear(0)) else UNKNOWN


def _and(left: Range, right: Range) -> Range:
    highs = [at.highs for at in (left, right) if at.is_at_least(Linear(0))]
    return Range((Linear(0),), sum(highs, ())) if highs else UNKNOWN


def _or(left: Range, right: Range) -> Range:
    """`|` and `^` of two values that are never negative keep below the next power of two."""
    if not (left.is_at_least(Linear(0)) and right.is_at_least(Linear(0))):
        return UNKNOWN
    return between(0, 2 ** max(_number(left, True), _number(right, True)).bit_length() - 1)


def _most(left: Range, right: Range) -> Range:
    """max: every lower bound of either holds."""
    return Range(left.lows + right.lows, _highs_of_either(left, right))


def _least(left: Range, right: Range) -> Range:
    """min."""
    return _negate(_most(_negate(left), _negate(right)))


def union(left: Range, right: Range) -> Range:
    """The range of a value that is one or the other."""
    return Range(_least(left, right).lows, _highs_of_either(left, right))


def _highs_of_either(left: Range, right: Range) -> tuple[Linear, ...]:
    """Upper bounds of a value that is in one range or in the other."""
    found = [high for high in left.highs if right.is_at_most(high)]
    found += [high for high in right.highs if left.is_at_most(high)]
    for one in _in_sizes(left.highs):
        for other in _in_sizes(right.highs):
            # One of them raised by as much as the other can be above it; or the sum, if neither is negative.
            found += [lower.plus(max(0, above)) for lower, above in _gaps(one, other)]
            if is_never_positive(one.times(-1)) and is_never_positive(other.times(-1)):
                found.append(one + other)
    if not found and left.highs and right.highs:
        found.append(Linear(max(_number(left, True), _number(right, True))))
    return tuple(found)


def _in_sizes(highs: tuple[Linear, ...]) -> tuple[Linear, ...]:
    return tuple(dict.fromkeys(without_indices(form, upper=True) for form in highs))


def _gaps(one: Linear, other: Linear) -> list[tuple[Linear, int]]:
    gaps = ((one, most(other - one)), (other, most(one - other)))
    return [(form, gap) for form, gap in gaps if gap is not None]


def _absolute(at: Range) -> Range:
    if at.is_at_least(Linear(0)):
        return at
    if not _bounded(at, at):
        return UNKNOWN  # the least 32-bit integer has no absolute value in 32 bits
    return Range((Linear(0),), _highs_of_either(at, _negate(at)))


_BINARY: dict[str, Callable[[Range, Range], Range]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "//": _floor_divide,
    "%": _modulo,
    "<<": _shift_left,
    ">>": _shift_right,
    "&": _and,
    "|": _or,
    "^": _or,
}
