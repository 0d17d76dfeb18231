"""Typed expressions: the one form in which score, mask, sink, scale, tile walks and derivatives are held.

A node is frozen. Equality and hash leave out the place it came from (`span`) and the name a person gave it (`label`),
so `parse(show(spec)) == spec`. Nodes are shared: the checker puts one object wherever a `let` name stood.
Kinds are "int" (32-bit signed), "float" (f32) and "bool"; the checker has made every promotion explicit (`Convert`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, dataclass_transform

from attnspec.language.source import NOWHERE, Span

Kind = Literal["int", "float", "bool"]
ArithmeticOp = Literal["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>"]
CompareOp = Literal["<", "<=", "==", "!=", ">=", ">"]

# Functions left in a checked expression. min and max take two arguments of one kind; abs keeps its kind;
# floor takes a float and gives an int (saturating; NaN gives 0); the rest take and give floats.
FUNCTIONS = ("min", "max", "abs", "floor", "exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "rsqrt")

# Names an expression may use. `qpos` is not among them: the checker writes it out as q + (len_kv - len_q).
INDICES = ("b", "h", "hkv", "q", "kv")
SIZES = ("batch", "heads", "kv_heads", "len_q", "len_kv")
FLOATS = ("score", "scale")
# Names that only tile walks use: first and last (inclusive) element of the tile at hand.
TILE_NAMES = ("q_first", "q_last", "kv_first", "kv_last")

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[_T]) -> type[_T]:
    """A frozen dataclass whose hash is computed once, when it is made: its operands have theirs, so no depth is too deep."""

    def hash_now(self: Any) -> None:
        hash(self)

    cls.__post_init__ = hash_now  # type: ignore[attr-defined]
    cls = dataclass(frozen=True)(cls)
    plain_hash = cls.__hash__

    def cached_hash(self: Any) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            found = plain_hash(self)
            object.__setattr__(self, "_hash", found)
        return found

    cls.__hash__ = cached_hash  # type: ignore[method-assign]
    return cls


@node
class Number:
    """A constant. A float is held as the double it was written as and is rounded to f32 where it is used; may be inf."""

    value: int | float
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Truth:
    """A boolean constant."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)
    kind: Kind = "bool"


@node
class Name:
    """A given name: one of INDICES, SIZES, FLOATS or TILE_NAMES."""

    name: str
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Read:
    """An element of a declared tensor; a scalar is read with no indices. bf16 and fp16 read as float, any int as int."""

    tensor: str
    indices: tuple[Expr, ...]
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Search:
    """Where a value belongs in the last axis of a tensor declared `sorted`; only tile walks and solved masks hold it.

    side "left": the number of elements below `value`; "right": the number at or below it (as numpy.searchsorted).
    within: empty, or what is known of the place: a value that is not above `value` and its place, then one that is not below it
    and its place.
    """

    tensor: str
    prefix: tuple[Expr, ...]
    value: Expr
    side: Literal["left", "right"]
    within: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)
    kind: Kind = "int"


@node
class Unary:
    """`-` of a number or `not` of a bool."""

    op: Literal["-", "not"]
    operand: Expr
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Binary:
    """Arithmetic on two operands of the node's kind. `//` and `%` floor; `/` is float; bit operations are int."""

    op: ArithmeticOp
    left: Expr
    right: Expr
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Compare:
    """A comparison of two operands of one numeric kind; a chain a < b < c is held as two, joined by `and`."""

    op: CompareOp
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)
    kind: Kind = "bool"


@node
class Logic:
    """`and` or `or` of two bools."""

    op: Literal["and", "or"]
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)
    kind: Kind = "bool"


@node
class Select:
    """`if_true if condition else if_false`, both of the node's kind."""

    condition: Expr
    if_true: Expr
    if_false: Expr
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Call:
    """One of FUNCTIONS."""

    function: str
    arguments: tuple[Expr, ...]
    kind: Kind
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)


@node
class Convert:
    """An int used as a float; written by the checker, never by a person."""

    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    label: str | None = field(default=None, compare=False, repr=False)
    kind: Kind = "float"


Expr = Number | Truth | Name | Read | Search | Unary | Binary | Compare | Logic | Select | Call | Convert


def children(expr: Expr) -> tuple[Expr, ...]:
    """Operands, left to right."""
    match expr:
        case Read():
            return expr.indices
        case Search():
            return (*expr.prefix, expr.value, *expr.within)
        case Unary() | Convert():
            return (expr.operand,)
        case Binary() | Compare() | Logic():
            return (expr.left, expr.right)
        case Select():
            return (expr.condition, expr.if_true, expr.if_false)
        case Call():
            return expr.arguments
        case _:
            return ()


def with_children(expr: Expr, operands: tuple[Expr, ...]) -> Expr:
    """The same node over other operands; the node itself if they are the same objects."""
    if all(new is old for new, old in zip(operands, children(expr), strict=True)):
        return expr
    match expr:
        case Read():
            return replace(expr, indices=operands)
        case Search():
            count = len(expr.prefix)
            return replace(expr, prefix=operands[:count], value=operands[count], within=operands[count + 1 :])
        case Unary() | Convert():
            return replace(expr, operand=operands[0])
        case Binary() | Compare() | Logic():
            return replace(expr, left=operands[0], right=operands[1])
        case Select():
            return replace(expr, condition=operands[0], if_true=operands[1], if_false=operands[2])
        case Call():
            return replace(expr, arguments=operands)
        case _:
            return expr


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up; `change` sees each distinct node once, with its operands already changed."""
    done: dict[Expr, Expr] = {}

    def visit(at: Expr) -> Expr:
        if at not in done:
            done[at] = change(with_children(at, tuple(visit(child) for child in children(at))))
        return done[at]

    return visit(expr)


def nodes(expr: Expr) -> Iterator[Expr]:
    """Distinct nodes, operands before users."""
    seen: set[Expr] = set()

    def visit(at: Expr) -> Iterator[Expr]:
        if at in seen:
            return
        seen.add(at)
        for child in children(at):
            yield from visit(child)
        yield at

    return visit(expr)


def names(expr: Expr) -> frozenset[str]:
    """Given names that an expression uses."""
    return frozenset(at.name for at in nodes(expr) if isinstance(at, Name))


def tensors_read(expr: Expr) -> frozenset[str]:
    """Declared tensors that an expression reads."""
    return frozenset(at.tensor for at in nodes(expr) if isinstance(at, Read | Search))


def substitute(expr: Expr, name: str, value: Expr) -> Expr:
    """Put `value` wherever the given name stands."""
    return rewrite(expr, lambda at: value if isinstance(at, Name) and at.name == name else at)


def field_names(expr: Expr) -> tuple[str, ...]:
    """Fields that take part in equality, in order (for printers)."""
    return tuple(item.name for item in fields(expr) if item.compare)
