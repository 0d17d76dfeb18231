"""Constant factors around and inside a bounded score, taken in by factors that are there anyway.

`cap * tanh(score / cap)` of a product q . k times a scale is a function between two factors: 1 / cap goes into the scale, cap
into what the exponential multiplies its argument by. What is left, tanh, is all that an element still costs.
"""

from dataclasses import dataclass

from attnspec.lowering.analysis.analysed import Analysed

from attnspec.language.expr import Binary, Expr, Name, Number, Read, children, names, nodes, with_children

SCORE = Name("score", "float")


@dataclass(frozen=True)
class Peeled:
    """score = outer * f(inner * x), x being the scaled product; `score` is f, in terms of `score`; outer is positive."""

    outer: float
    inner: float
    score: Expr


def fuses_score(analysed: Analysed) -> bool:
    """Whether score and exponential are one operation, a chunk of keys after the other: no maximum comes between them, and no
    load of a tensor."""
    score = analysed.spec.score
    return score != SCORE and not analysed.bounds.needs_row_max and not any(isinstance(at, Read) for at in nodes(score))


def peel(analysed: Analysed) -> Peeled:
    """What is left of a score that needs no maximum; of another, all of it."""
    score, outer = analysed.spec.score, 1.0
    if analysed.bounds.needs_row_max:
        return Peeled(1.0, 1.0, score)
    while (found := _factor(score)) is not None and "score" in names(found[1]) and found[0] > 0:
        factor, score = found
        outer *= factor
    factors = set(_inner(score))
    if len(factors) != 1 or None in factors:
        return Peeled(outer, 1.0, score)
    (inner,) = factors
    return Peeled(outer, inner or 1.0, _bare(score))


def _factor(at: Expr) -> tuple[float, Expr] | None:
    """A product with a constant, or a quotient by one, as both."""
    if not isinstance(at, Binary) or at.kind != "float" or at.op not in ("*", "/"):
        return None
    if isinstance(at.right, Number) and at.right.value:
        value = float(at.right.value)
        return (value if at.op == "*" else 1.0 / value), at.left
    return (float(at.left.value), at.right) if isinstance(at.left, Number) and at.op == "*" else None


def _inner(at: Expr) -> list[float | None]:
    """The factors of all places where the score is read; None where it stands alone."""
    found = _factor(at)
    if found is not None and found[1] == SCORE:
        return [found[0]]
    if at == SCORE:
        return [None]
    return [factor for child in children(at) for factor in _inner(child)]


def _bare(at: Expr) -> Expr:
    """The same without those factors."""
    found = _factor(at)
    if found is not None and found[1] == SCORE:
        return found[1]
    return with_children(at, tuple(_bare(child) for child in children(at))) if children(at) else at
