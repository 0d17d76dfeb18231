"""A sum that is at least 0, solved for one of its names."""

from typing import Literal

from attnspec.lowering.analysis.facts import Facts
from attnspec.lowering.analysis.linear import Linear, floor_divide, linear, names_in, of_term, to_expr

from attnspec.language.expr import Binary, Expr, Name, Number, Read, Search

Bound = tuple[Literal["lower", "upper"], Linear]


def solve(form: Linear, name: str, facts: Facts) -> Bound | None:
    """An inclusive bound on `name` that holds exactly where form >= 0; None if this is no such bound.

    The name must occur in one term: by itself, in x // n, or as the last index of a sorted tensor, in any nesting. Other
    names may occur in the bound.
    """
    held = form.using(name)
    if len(held) != 1:
        return None
    ((term, count),) = held
    rest = form - of_term(term, count)
    if count > 0:  # term >= ceil(-rest / count)
        return above(term, -floor_divide(rest, count), name, facts)
    return below(term, floor_divide(rest, -count), name, facts)


def above(term: Expr, bound: Linear, name: str, facts: Facts) -> Bound | None:
    """term >= bound."""
    match term:
        case Name():
            return "lower", bound
        case Binary(op="//", left=left, right=Number(value=divisor)):
            return solve(linear(left) - bound * int(divisor), name, facts)
        case Read() if is_sorted_at(term, name, facts):
            return solve(linear(term.indices[-1]) - search(term, bound, "left"), name, facts)
    return None


def below(term: Expr, bound: Linear, name: str, facts: Facts) -> Bound | None:
    """term <= bound."""
    match term:
        case Name():
            return "upper", bound
        case Binary(op="//", left=left, right=Number(value=divisor)):
            return solve(bound * int(divisor) + (int(divisor) - 1) - linear(left), name, facts)
        case Read() if is_sorted_at(term, name, facts):
            return solve(search(term, bound, "right") - 1 - linear(term.indices[-1]), name, facts)
    return None


def search(read: Read, value: Linear, side: Literal["left", "right"]) -> Linear:
    """Where a value belongs in the row that a read is from; below v + 1 is at or below v."""
    if side == "left" and value.constant == 1 and value.terms:
        value, side = value - 1, "right"
    elif side == "right" and value.constant == -1 and value.terms:
        value, side = value + 1, "left"
    return of_term(Search(read.tensor, read.indices[:-1], to_expr(value), side))


def is_sorted_at(read: Read, name: str, facts: Facts) -> bool:
    """Does the value never fall as its last index, the only one with the name, rises?"""
    outer = read.indices[:-1]
    return facts.is_sorted(read.tensor) and not any({"q", "kv", name} & names_in(at) for at in outer)


def direction(form: Linear, name: str, facts: Facts) -> int | None:
    """+1 if the sum never falls as `name` rises, -1 if it never rises, 0 if the name is absent; None if unknown."""
    signs = set()
    for term, count in form.using(name):
        sign = term_direction(term, name, facts)
        if sign is None:
            return None
        signs.add(sign if count > 0 else -sign)
    if not signs:
        return 0
    return signs.pop() if len(signs) == 1 else None


def term_direction(term: Expr, name: str, facts: Facts) -> int | None:
    """Direction of a term in which the name occurs."""
    match term:
        case Name():
            return 1
        case Binary(op="//", left=left, right=Number()):
            return direction(linear(left), name, facts)
        case Read() if is_sorted_at(term, name, facts):
            return direction(linear(term.indices[-1]), name, facts)
    return None
