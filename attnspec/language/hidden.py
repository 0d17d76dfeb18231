"""Masks that hide every key whatever the lengths: certainly not what was meant."""

from __future__ import annotations

from collections.abc import Iterator

from attnspec.language.expr import Compare, Expr, Logic, Truth, Unary
from attnspec.language.linear import Linear, is_never_positive
from attnspec.language.ranges import Ranges

MAX_CONDITIONS = 40  # of one conjunction that are compared with each other
FLIPPED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def hidden_by(mask: Expr, ranges: Ranges) -> Expr | None:
    """The part of a mask that is false for every element and every size; None if none is found.

    Comparisons are held against each other as linear forms, two at a time: enough for crossed windows.
    """
    match mask:
        case Truth(value=False):
            return mask
        case Logic(op="or"):
            return mask if hidden_by(mask.left, ranges) and hidden_by(mask.right, ranges) else None
        case Logic(op="and"):
            parts = list(_conjuncts(mask))[:MAX_CONDITIONS]
            alone = next((part for part in parts if hidden_by(part, ranges)), None)
            return alone or (mask if _is_contradiction(parts, ranges) else None)
        case _:
            return mask if _is_contradiction([mask], ranges) else None


def _conjuncts(mask: Expr) -> Iterator[Expr]:
    if isinstance(mask, Logic) and mask.op == "and":
        yield from _conjuncts(mask.left)
        yield from _conjuncts(mask.right)
    else:
        yield mask


def _is_contradiction(parts: list[Expr], ranges: Ranges) -> bool:
    """Whether the forms that must be at most 0 cannot be, alone or in pairs."""
    forms = [form for part in parts for form in _at_most_zero(part, False, ranges)][:MAX_CONDITIONS]
    sums = [*forms, *(one + other for index, one in enumerate(forms) for other in forms[:index])]
    return any(is_never_positive(form.times(-1).plus(1)) for form in sums)


def _at_most_zero(part: Expr, negated: bool, ranges: Ranges) -> Iterator[Linear]:
    """Forms that are at most 0 wherever a comparison of integers holds."""
    if isinstance(part, Unary) and part.op == "not":
        yield from _at_most_zero(part.operand, not negated, ranges)
        return
    if not isinstance(part, Compare) or part.left.kind != "int":
        return
    op = FLIPPED[part.op] if negated else part.op
    left, right = ranges.of(part.left), ranges.of(part.right)
    strict = int(op in ("<", ">"))
    if op in ("<", "<=", "=="):
        yield from (low.plus(strict) - high for low in left.lows for high in right.highs)
    if op in (">", ">=", "=="):
        yield from (low.plus(strict) - high for low in right.lows for high in left.highs)
