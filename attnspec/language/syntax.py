"""What a file says, before anything is known about it: one node a statement, expressions as they were written."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnspec.language.source import NOWHERE, Source, Span


@dataclass(frozen=True)
class Word:
    """A name where it was written."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# Expressions.


@dataclass(frozen=True)
class Literal:
    """A number; `text` keeps what was written, so that a value out of range can be shown."""

    value: int | float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Flag:
    """`true` or `false`."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Nothing:
    """`none`."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Ident:
    """A name used as a value."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Apply:
    """`name(arguments)`."""

    function: Word
    arguments: tuple[SyntaxExpr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Element:
    """`name[indices]`."""

    tensor: Word
    indices: tuple[SyntaxExpr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Prefix:
    """`-x` or `not x`."""

    op: str
    operand: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Infix:
    """Arithmetic, bit operations, `and`, `or`."""

    op: str
    left: SyntaxExpr
    right: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Chain:
    """`a < b <= c`: operands one longer than operators."""

    operands: tuple[SyntaxExpr, ...]
    ops: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class IsNone:
    """`x is none`, or `x is not none`."""

    operand: SyntaxExpr
    negated: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Choice:
    """`if_true if condition else if_false`."""

    if_true: SyntaxExpr
    condition: SyntaxExpr
    if_false: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


SyntaxExpr = Literal | Flag | Nothing | Ident | Apply | Element | Prefix | Infix | Chain | IsNone | Choice


def operands(expr: SyntaxExpr) -> tuple[SyntaxExpr, ...]:
    """Sub-expressions, left to right."""
    match expr:
        case Apply():
            return expr.arguments
        case Element():
            return expr.indices
        case Prefix() | IsNone():
            return (expr.operand,)
        case Infix():
            return (expr.left, expr.right)
        case Chain():
            return expr.operands
        case Choice():
            return (expr.if_true, expr.condition, expr.if_false)
        case _:
            return ()


# Statements.


@dataclass(frozen=True)
class Attention:
    name: Word
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class HeadDim:
    """Query/key width and value width (None: the same)."""

    query: Literal
    value: Literal | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Group:
    """Query heads per key/value head; None is `any`."""

    size: Literal | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class ElementType:
    """`dtype NAME`."""

    name: Word
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Scale:
    value: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Varlen:
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Const:
    name: Word
    value: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Declare:
    """`input` or `learned`. shape: None for a scalar. limits: `in LO..HI`."""

    name: Word
    is_learned: bool
    dtype: Word
    shape: tuple[SyntaxExpr, ...] | None
    limits: tuple[SyntaxExpr, SyntaxExpr] | None
    is_sorted: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Let:
    name: Word
    value: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Def:
    """requires: conditions on the arguments, checked where they are constant."""

    name: Word
    parameters: tuple[Word, ...]
    requires: tuple[SyntaxExpr, ...]
    body: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Score:
    value: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Mask:
    value: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Sink:
    value: SyntaxExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Attention | HeadDim | Group | ElementType | Scale | Varlen | Const | Declare | Let | Def | Score | Mask | Sink


@dataclass(frozen=True)
class Tree:
    """A parsed file."""

    source: Source = field(compare=False, repr=False)
    statements: tuple[Statement, ...]
