"""A mask as an `or` of terms, each an `and` of literals; never too small, so that a term left vague shows more, not less."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnspec.lowering.analysis.facts import Facts
from attnspec.lowering.analysis.linear import Linear, linear, names_in, of_term, to_expr
from attnspec.lowering.analysis.words import words
from attnspec.lowering.fold import OPPOSITE

from attnspec.language.expr import Call, Compare, Expr, Logic, Select, Truth, Unary, nodes, rewrite

MOST_TERMS = 64
MOST_WORK = 2**14  # terms looked at for one mask
MOST_SPLITS = 6  # nested min, max, abs and if-else that one comparison is split over


@dataclass(frozen=True)
class AtLeast:
    """An int sum that is at least 0."""

    form: Linear
    origin: Expr = field(compare=False)
    is_true: bool = field(compare=False)


@dataclass(frozen=True)
class Opaque:
    """A bool that is no comparison of ints, or its negation."""

    origin: Expr
    is_true: bool


Literal = AtLeast | Opaque
Term = tuple[Literal, ...]  # no literal twice; in the order of the file, so that equal specs give equal text
EVERYTHING: tuple[Term, ...] = ((),)


@dataclass
class Splitter:
    """Splits one mask; `notes` says what was left vague."""

    facts: Facts
    notes: list[str] = field(default_factory=list)
    done: dict[tuple[Expr, bool], tuple[Term, ...]] = field(default_factory=dict)
    work: int = MOST_WORK

    def terms(self, expr: Expr, want: bool) -> tuple[Term, ...]:
        """Terms that together hold exactly where `expr` is `want`, but for what `notes` says."""
        key = (expr, want)
        if key not in self.done:
            self.done[key] = self.split(expr, want)
        return self.done[key]

    def split(self, expr: Expr, want: bool) -> tuple[Term, ...]:
        """One node."""
        match expr:
            case Truth(value=value):
                return EVERYTHING if value == want else ()
            case Unary(operand=operand):
                return self.terms(operand, not want)
            case Logic(op=op, left=left, right=right):
                one, other = self.terms(left, want), self.terms(right, want)
                return self.both(one, other, expr) if (op == "and") == want else self.either(one, other, expr)
            case Select(condition=condition, if_true=if_true, if_false=if_false):
                one = self.both(self.terms(condition, True), self.terms(if_true, want), expr)
                other = self.both(self.terms(condition, False), self.terms(if_false, want), expr)
                return self.either(one, other, expr)
            case Compare(left=left) if left.kind == "int":
                return self.comparison(expr, want)
        return ((Opaque(expr, want),),)

    def comparison(self, expr: Compare, want: bool) -> tuple[Term, ...]:
        """A comparison of ints as sums that are at least 0."""
        above = linear(expr.left) - linear(expr.right)

        def least(form: Linear) -> tuple[Term, ...]:
            return self.at_least(form, expr, want, MOST_SPLITS)

        match expr.op if want else OPPOSITE[expr.op]:
            case ">=":
                return least(above)
            case ">":
                return least(above - 1)
            case "<=":
                return least(-above)
            case "<":
                return least(-above - 1)
            case "==":
                return self.both(least(above), least(-above), expr)
            case _:
                return self.either(least(above - 1), least(-above - 1), expr)

    def at_least(self, form: Linear, origin: Expr, want: bool, splits: int) -> tuple[Term, ...]:
        """form >= 0, with min, max, abs and if-else in q or kv split into cases."""
        self.work -= len(form.terms)
        for term, count in form.terms:
            if not names_in(term) & {"q", "kv"}:
                continue
            piece = term if is_piecewise(term) else next((at for at in nodes(term) if is_piecewise(at)), None)
            if piece is None:
                continue
            if splits == 0 or self.work < 0:
                self.give_up(origin)
                return ((Opaque(origin, want),),)
            if piece is term and isinstance(piece, Call):
                return self.extreme(form, piece, count, origin, want, splits)
            return self.cases(form, piece, origin, want, splits)
        return self.normal([(AtLeast(form, origin, want),)])

    def extreme(self, form: Linear, piece: Call, count: int, origin: Expr, want: bool, splits: int) -> tuple[Term, ...]:
        """A sum with a multiple of min, max or abs: both alternatives hold, or either does."""
        rest = form - of_term(piece, count)
        one, other = (self.at_least(rest + value * count, origin, want, splits - 1) for value in alternatives(piece))
        is_smaller = (piece.function == "min") == (count > 0)
        return self.both(one, other, origin) if is_smaller else self.either(one, other, origin)

    def cases(self, form: Linear, piece: Expr, origin: Expr, want: bool, splits: int) -> tuple[Term, ...]:
        """A choice inside another operation: either its condition holds and one value stands, or the other."""
        found: tuple[Term, ...] = ()
        for condition, holds, value in guarded(piece):
            inside = self.at_least(replaced(form, piece, value), origin, want, splits - 1)
            if isinstance(condition, Linear):
                guard = self.at_least(condition if holds else -condition - 1, origin, want, splits - 1)
            else:
                guard = self.terms(condition, holds)
            found = self.either(found, self.both(guard, inside, origin), origin)
        return found

    def both(self, one: tuple[Term, ...], other: tuple[Term, ...], at: Expr) -> tuple[Term, ...]:
        """`and`; where that takes too many terms, the simpler operand alone."""
        if len(one) * len(other) <= self.work:
            found = self.normal([left + right for left in one for right in other])
            if len(found) <= MOST_TERMS:
                return found
        self.give_up(at)
        return min(one, other, key=len)

    def either(self, one: tuple[Term, ...], other: tuple[Term, ...], at: Expr) -> tuple[Term, ...]:
        """`or`; where that takes too many terms, everything."""
        if len(one) + len(other) <= self.work:
            found = self.normal([*one, *other])
            if len(found) <= MOST_TERMS:
                return found
        self.give_up(at)
        return EVERYTHING

    def give_up(self, at: Expr) -> None:
        """Remember what is left vague."""
        note = f"`{words(at)}` has too many cases"
        if note not in self.notes:
            self.notes.append(note)

    def normal(self, terms: list[Term]) -> tuple[Term, ...]:
        """Terms tightened; those that cannot hold and those that another one covers left out."""
        self.work -= len(terms)
        kept: list[tuple[Term, frozenset[Literal]]] = []
        for term in terms:
            tight = self.tightened(term)
            if tight is None:
                continue
            literals = frozenset(tight)
            if any(other <= literals for _, other in kept):
                continue
            kept = [(its, other) for its, other in kept if not literals <= other]
            kept.append((tight, literals))
            if len(kept) > 2 * MOST_TERMS:
                break
        return tuple(term for term, _ in kept)

    def tightened(self, term: Term) -> Term | None:
        """The strictest of the literals on each sum, without those always true; None if no element satisfies them."""
        strictest: dict[frozenset[tuple[Expr, int]], AtLeast] = {}
        kept: list[Literal] = []
        for literal in term:
            if isinstance(literal, Opaque):
                if Opaque(literal.origin, not literal.is_true) in term:
                    return None
                kept.append(literal)
                continue
            if self.facts.most(literal.form) < 0:
                return None
            if self.facts.least(literal.form) >= 0:
                continue
            terms = literal.form.key[0]
            if terms not in strictest or literal.form.constant < strictest[terms].form.constant:
                strictest[terms] = literal
        for literal in strictest.values():
            against = strictest.get((-literal.form).key[0])
            if against is not None and literal.form.constant + against.form.constant < 0:
                return None
        return tuple(dict.fromkeys([*kept, *strictest.values()]))


def is_piecewise(expr: Expr) -> bool:
    """Is it an int that takes one of two values by a condition on q or kv?"""
    choice = isinstance(expr, Select) or (isinstance(expr, Call) and expr.function in ("min", "max", "abs"))
    return choice and expr.kind == "int" and bool(names_in(expr) & {"q", "kv"})


def alternatives(piece: Call) -> tuple[Linear, Linear]:
    """The two sums that min, max or abs picks from."""
    first = linear(piece.arguments[0])
    return first, -first if piece.function == "abs" else linear(piece.arguments[1])


def guarded(piece: Expr) -> list[tuple[Linear | Expr, bool, Expr]]:
    """(condition, does it hold, value): a sum as a condition means that it is at least 0."""
    if isinstance(piece, Select):
        return [(piece.condition, True, piece.if_true), (piece.condition, False, piece.if_false)]
    assert isinstance(piece, Call)
    one, other = alternatives(piece)
    first_wins = one - other if piece.function in ("max", "abs") else other - one
    return [(first_wins, True, to_expr(one)), (first_wins, False, to_expr(other))]


def replaced(form: Linear, piece: Expr, value: Expr) -> Linear:
    """The sum with one node replaced, wherever it stands."""
    kept, changed = [], Linear((), 0)
    for term, count in form.terms:
        found = value if term == piece else rewrite(term, lambda at: value if at == piece else at)
        if found is term:
            kept.append((term, count))
        else:
            changed = changed + linear(found) * count
    return Linear(tuple(kept), form.constant) + changed
