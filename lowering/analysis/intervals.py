"""Which elements of one axis a tile of the other axis sees, and which it must mask: ranges in closed form."""

from functools import reduce
from typing import Literal

from attnspec.lowering.analysis.analysed import Range, Walk
from attnspec.lowering.analysis.facts import Facts
from attnspec.lowering.analysis.linear import Linear, to_expr
from attnspec.lowering.analysis.shadow import Caster, Opaque, Shadow, quoted
from attnspec.lowering.analysis.terms import Splitter, Term
from attnspec.lowering.simplify import simplify

from attnspec.language.expr import Call, Compare, Expr, Logic, Name, Number, Select, Unary
from attnspec.language.source import NOWHERE, Span

ZERO = Number(0, "int")
NOTHING = Range(ZERO, ZERO, "nothing is visible")  # so that an emitted kernel always has a range to walk
Split = tuple[Splitter, tuple[Term, ...]]


def walks(mask: Expr | None, facts: Facts) -> tuple[Walk, Walk]:
    """The walk along keys for a query tile, and along queries for a KV tile.

    Exact for `and`, `or`, `not` of integer comparisons whose sides are sums of q, kv, their quotients by constants, elements
    of sorted tensors, and any value without q and kv; min, max, abs and if-else are split into cases.
    """
    if mask is None:
        whole = (Range(ZERO, Name(f"len_{axis}", "int"), "everything is visible") for axis in ("kv", "q"))
        keys, queries = ((item,) for item in whole)
        return Walk("kv", keys, (), True, ()), Walk("q", queries, (), True, ())
    seen, hidden = Splitter(facts), Splitter(facts)
    split = (seen, seen.terms(mask, True)), (hidden, hidden.terms(mask, False))
    return walk_of(mask, "kv", split, facts), walk_of(mask, "q", split, facts)


def walk_of(mask: Expr, axis: Literal["kv", "q"], split: tuple[Split, Split], facts: Facts) -> Walk:
    """One walk, from the terms of the mask and of its negation."""
    seen, hidden = (ranges(splitter, terms, axis, mask.span, facts) for splitter, terms in split)
    notes = tuple(dict.fromkeys([*seen[1], *hidden[1]]))
    return Walk(axis, seen[0] or (NOTHING,), hidden[0], not notes, notes)


def ranges(
    splitter: Splitter, terms: tuple[Term, ...], axis: str, span: Span, facts: Facts
) -> tuple[tuple[Range, ...], list[str]]:
    """Ranges that hold every element of the terms, and why they may hold more."""
    shadows = [(Caster("q" if axis == "kv" else "kv", axis, facts).cast(term), term) for term in terms]
    for shadow, _ in shadows:
        shadow.lowers = strictest(shadow.lowers, facts)
        shadow.uppers = [-form for form in strictest([-form for form in shadow.uppers], facts)]
    # Of two that cover each other the exact one stays.
    kept = uncovered(sorted(shadows, key=lambda item: bool(item[0].notes)), facts)
    found = tuple(range_of(shadow, term, axis, span) for shadow, term in kept)
    return found, [*splitter.notes, *(note for shadow, _ in kept for note in shadow.notes)]


def strictest(lowers: list[Linear], facts: Facts) -> list[Linear]:
    """Lower bounds without those that another one implies."""
    kept: list[Linear] = []
    for form in lowers:
        if any(facts.least(other - form) >= 0 for other in kept):
            continue
        kept = [other for other in kept if facts.least(form - other) < 0]
        kept.append(form)
    return kept


def uncovered(shadows: list[tuple[Shadow, Term]], facts: Facts) -> list[tuple[Shadow, Term]]:
    """Shadows that no other one covers."""
    kept: list[tuple[Shadow, Term]] = []
    for shadow, term in shadows:
        if any(covers(other, shadow, facts) for other, _ in kept):
            continue
        kept = [(other, its) for other, its in kept if not covers(shadow, other, facts)]
        kept.append((shadow, term))
    return kept


def covers(big: Shadow, small: Shadow, facts: Facts) -> bool:
    """Is the range of `small` proved to be inside that of `big`?"""
    if not all(condition in small.conditions for condition in big.conditions):
        return False
    low = all(any(facts.least(form - bound) >= 0 for form in small.lowers) for bound in big.lowers)
    high = all(any(facts.least(bound - form) >= 0 for form in small.uppers) for bound in big.uppers)
    return low and high


def range_of(shadow: Shadow, term: Term, axis: str, span: Span) -> Range:
    """The range of a shadow as expressions, with the term it came from as its reason."""
    first = joined("max", [to_expr(form) for form in shadow.lowers]) or ZERO
    last = joined("min", [to_expr(form + 1) for form in shadow.uppers]) or Name(f"len_{axis}", "int")
    if shadow.conditions:
        holds = reduce(lambda one, other: Logic("and", one, other), map(condition_of, shadow.conditions))
        last = Select(holds, last, first, "int")
    reason = " and ".join(dict.fromkeys(map(quoted, term))) or "everything"
    spans = [literal.origin.span for literal in term if literal.origin.span is not NOWHERE]
    return Range(simplify(first), simplify(last), reason, spans[0] if len(spans) == 1 else span)


def joined(function: str, bounds: list[Expr]) -> Expr | None:
    """min or max of any number of bounds."""
    return reduce(lambda one, other: Call(function, (one, other), "int"), bounds) if bounds else None


def condition_of(condition: Linear | Opaque) -> Expr:
    """A condition as a bool expression."""
    if isinstance(condition, Opaque):
        return condition.origin if condition.is_true else Unary("not", condition.origin, "bool")
    added = Linear(tuple(item for item in condition.terms if item[1] > 0), max(0, condition.constant))
    if not added.terms:
        return Compare("<=", to_expr(added - condition), to_expr(added))
    return Compare(">=", to_expr(added), to_expr(added - condition))
