"""Integer expressions as sums: whole multiples of terms, plus a constant.

A term is any int expression that is not itself a sum: a name, a read, `x // 4`, `min(...)`, a product. `%`, `>>`, `<<` and
`& (2**n - 1)` are written with `//`, so that equal values get equal terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd

from attnspec.language.expr import (
    SIZES,
    ArithmeticOp,
    Binary,
    Expr,
    Name,
    Number,
    Read,
    Unary,
    children,
    rewrite,
    substitute,
    with_children,
)
from attnspec.language.source import NOWHERE


@dataclass(frozen=True, eq=False)
class Linear:
    """coefficient * term, summed, plus a constant. No coefficient is 0 and no term occurs twice."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def key(self) -> tuple[frozenset[tuple[Expr, int]], int]:
        """Equal for equal sums, in whatever order the terms came."""
        return frozenset(self.terms), self.constant

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        found = dict(self.terms)
        for term, coefficient in other.terms:
            found[term] = found.get(term, 0) + coefficient
        terms = tuple((term, coefficient) for term, coefficient in found.items() if coefficient)
        return Linear(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear:
        if factor == 0:
            return Linear((), 0)
        return Linear(tuple((term, coefficient * factor) for term, coefficient in self.terms), self.constant * factor)

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear | int) -> Linear:
        return self + -other

    def coefficient(self, term: Expr) -> int:
        """How often a term is in the sum."""
        return dict(self.terms).get(term, 0)

    def using(self, name: str) -> tuple[tuple[Expr, int], ...]:
        """The terms in which a given name occurs."""
        return tuple((term, coefficient) for term, coefficient in self.terms if name in names_in(term))

    def uses(self, *given: str) -> bool:
        """Does any of these names occur?"""
        return any(name in names_in(term) for term, _ in self.terms for name in given)


def of_term(term: Expr, coefficient: int = 1) -> Linear:
    """A term by itself."""
    return Linear(((term, coefficient),), 0)


def of_name(name: str) -> Linear:
    """A given name by itself."""
    return of_term(Name(name, "int"))


@lru_cache(maxsize=2**16)
def names_in(expr: Expr) -> frozenset[str]:
    """Given names in an expression."""
    own = frozenset({expr.name}) if isinstance(expr, Name) else frozenset[str]()
    return own.union(*map(names_in, children(expr)))


@lru_cache(maxsize=8192)
def linear(expr: Expr) -> Linear:
    """The sum that an int expression is."""
    match expr:
        case Number(value=value):
            return Linear((), int(value))
        case Unary(operand=operand):
            return -linear(operand)
        case Binary(op="+", left=left, right=right):
            return linear(left) + linear(right)
        case Binary(op="-", left=left, right=right):
            return linear(left) - linear(right)
        case Binary(left=left, right=right):
            return operation(expr, linear(left), linear(right))
        case Name():
            return of_term(bare(expr))
    return of_term(with_sums_inside(expr))


def with_sums_inside(expr: Expr) -> Expr:
    """The node over int operands in their canonical form, without the place and the name that a person gave it."""
    inner = tuple(to_expr(linear(at)) if at.kind == "int" else rewrite(at, bare) for at in children(expr))
    return bare(with_children(expr, inner))


def bare(expr: Expr) -> Expr:
    """The node without its place and name: results are kept across specs, and must not carry one spec's names to another."""
    if expr.span is not NOWHERE or expr.label is not None:
        expr = replace(expr, span=NOWHERE, label=None)
    return first_of_equals(expr)


@lru_cache(maxsize=2**16)
def first_of_equals(expr: Expr) -> Expr:
    """One object for equal nodes: comparing two of them looks at their operands once, not at every path to every leaf."""
    return expr


def operation(expr: Binary, left: Linear, right: Linear) -> Linear:
    """Products and quotients by constants; all else is a term."""
    if expr.op == "*" and not right.terms:
        return left * right.constant
    if expr.op == "*" and not left.terms:
        return right * left.constant
    if not right.terms:
        value = right.constant
        if expr.op == "//" and value:
            return floor_divide(left, value)
        if expr.op == "%" and value:
            return left - floor_divide(left, value) * value
        if expr.op == "<<" and 0 <= value < 31:
            return left * 2**value
        if expr.op == ">>" and 0 <= value < 31:
            return floor_divide(left, 2**value)
        if expr.op == "&" and value >= 0 and value & (value + 1) == 0:
            return left - floor_divide(left, value + 1) * (value + 1)
    return of_term(with_sums_inside(expr))


def floor_divide(form: Linear, divisor: int) -> Linear:
    """Floor of form / divisor; what divides evenly is taken out, and a quotient of a quotient becomes one."""
    if divisor < 0:
        form, divisor = -form, -divisor
    if divisor == 1:
        return form
    even = tuple((term, count // divisor) for term, count in form.terms if count % divisor == 0)
    rest = tuple((term, count) for term, count in form.terms if count % divisor)
    out, over = divmod(form.constant, divisor)
    if not rest:
        return Linear(even, out)
    common = gcd(divisor, *(count for _, count in rest))
    inner = Linear(tuple((term, count // common) for term, count in rest), over // common)
    divisor //= common
    match inner.terms:
        case ((Binary(op="//", left=left, right=Number(value=below)), 1),):
            nested = linear(left) + inner.constant * int(below)
            return Linear(even, out) + floor_divide(nested, divisor * int(below))
    return Linear(even, out) + of_term(joined("//", to_expr(inner), whole(divisor)))


def order(item: tuple[Expr, int]) -> tuple[bool, bool, str, str]:
    """Added terms first, lengths and counts last, then by kind of node and name: one text for one value."""
    term, coefficient = item
    name = term.name if isinstance(term, Name) else term.tensor if isinstance(term, Read) else ""
    return coefficient < 0, name in SIZES, type(term).__name__, name


def to_expr(form: Linear) -> Expr:
    """The expression of a sum, as a person would write it: added terms, subtracted terms, the constant."""
    total: Expr | None = None
    items = sorted(form.terms, key=order)
    if form.constant and all(coefficient < 0 for _, coefficient in items):
        total = whole(form.constant)
    for term, coefficient in items:
        part = term if abs(coefficient) == 1 else joined("*", term, whole(abs(coefficient)))
        if total is None:
            total = part if coefficient > 0 else first_of_equals(Unary("-", part, "int"))
        else:
            total = joined("+" if coefficient > 0 else "-", total, part)
    if total is None:
        return whole(form.constant)
    if form.constant and any(coefficient > 0 for _, coefficient in items):
        total = joined("+" if form.constant > 0 else "-", total, whole(abs(form.constant)))
    return total


def whole(value: int) -> Expr:
    """An int constant."""
    return first_of_equals(Number(value, "int"))


def joined(op: ArithmeticOp, left: Expr, right: Expr) -> Expr:
    """An int operation."""
    return first_of_equals(Binary(op, left, right, "int"))


def substituted(form: Linear, name: str, value: Expr) -> Linear:
    """The sum with `value` in place of a given name, wherever it stands."""
    total = Linear((), form.constant)
    for term, coefficient in form.terms:
        total = total + linear(substitute(term, name, value)) * coefficient
    return total
