"""The shadow of a term on the walked axis: where an element of it exists for some position of the tile at hand.

A term is an `and` of sums that are at least 0. Each that moves one way with the tile's own name x is a threshold on x, an
integer that depends on the walked name y. An integer x between all lower and all upper thresholds exists iff every pair
(lower, upper) is in order; each pair is a sum in y alone, solved for y. So the shadow is exact, and one range. A literal or a
pair that cannot be solved is left out, with a note: the shadow is then too large, never too small.
"""

from dataclasses import dataclass, field

from attnspec.lowering.analysis.facts import Facts
from attnspec.lowering.analysis.linear import Linear, linear, names_in, of_name, substituted, to_expr
from attnspec.lowering.analysis.solve import direction, solve
from attnspec.lowering.analysis.terms import AtLeast, Literal, Opaque, Term
from attnspec.lowering.analysis.words import words

from attnspec.language.expr import Call, Expr, Read, nodes


@dataclass
class Shadow:
    """lowers <= y <= uppers, if all of `conditions` (sums that are at least 0, bools) hold."""

    lowers: list[Linear] = field(default_factory=list)
    uppers: list[Linear] = field(default_factory=list)
    conditions: list[Linear | Opaque] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Caster:
    """Casts the shadow of one term; x is the name of the tile at hand, y the walked one."""

    x: str
    y: str
    facts: Facts
    shadow: Shadow = field(default_factory=Shadow)
    rising: list[AtLeast] = field(default_factory=list)
    falling: list[AtLeast] = field(default_factory=list)
    firsts: list[Linear] = field(default_factory=list)
    lasts: list[Linear] = field(default_factory=list)

    def cast(self, term: Term) -> Shadow:
        """The shadow of a term."""
        self.firsts.append(of_name(f"{self.x}_first"))
        self.lasts.append(of_name(f"{self.x}_last"))
        for literal in term:
            self.sort(literal)
        for first in self.firsts:
            for last in self.lasts:
                self.require(last - first)
        for literal in self.rising:
            self.at_ends(literal, self.lasts, "min")
        for literal in self.falling:
            self.at_ends(literal, self.firsts, "max")
        for low in self.rising:
            for high in self.falling:
                self.pair(low, high)
        return self.shadow

    def sort(self, literal: Literal) -> None:
        """Bounds on x and on y are taken at once; thresholds are kept for later."""
        if isinstance(literal, Opaque):
            if names_in(literal.origin) & {"q", "kv"}:
                self.note(f"{quoted(literal)} is no comparison of integers")
            else:
                self.shadow.conditions.append(literal)
            return
        form = literal.form
        if not form.uses(self.x):
            if not self.keep(form):
                self.note(f"{quoted(literal)} does not give one range of {self.y}")
        elif not form.uses(self.y):
            self.bound_tile(literal)
        else:
            way = direction(form, self.x, self.facts)
            if way is None:
                self.note(f"{quoted(literal)} moves both ways with {self.x}")
            else:
                (self.rising if way > 0 else self.falling).append(literal)

    def bound_tile(self, literal: AtLeast) -> None:
        """A literal in x alone."""
        bound = solve(literal.form, self.x, self.facts)
        if bound is None:
            self.note(f"{quoted(literal)} does not give one range of {self.x}")
        else:
            (self.firsts if bound[0] == "lower" else self.lasts).append(bound[1])

    def keep(self, form: Linear) -> bool:
        """Take form >= 0, in which x does not occur; False if it cannot be solved for y."""
        if self.facts.least(form) >= 0:
            return True
        if not form.uses(self.y):
            self.require(form)
            return True
        bound = solve(form, self.y, self.facts)
        if bound is None:
            return False
        (self.shadow.lowers if bound[0] == "lower" else self.shadow.uppers).append(bound[1])
        return True

    def require(self, form: Linear) -> None:
        """A condition without x and y."""
        if self.facts.least(form) < 0 and form not in self.shadow.conditions:
            self.shadow.conditions.append(form)

    def at_ends(self, literal: AtLeast, ends: list[Linear], pick: str) -> None:
        """A threshold at the end of the tile where it is easiest to meet."""
        if reads_at(literal.form, self.x):
            ends = [self.inside_tile(ends, pick)]
        for end in ends:
            if not self.keep(substituted(literal.form, self.x, to_expr(end))):
                self.note(f"{quoted(literal)} does not give one range of {self.y}")

    def inside_tile(self, ends: list[Linear], pick: str) -> Linear:
        """The tightest end, held inside the tile so that tensors may be read there even if no position is left."""
        if len(ends) == 1:
            return ends[0]
        found = to_expr(ends[0])
        for end in ends[1:]:
            found = Call(pick, (found, to_expr(end)), "int")
        other, hold = (self.firsts[0], "max") if pick == "min" else (self.lasts[0], "min")
        return linear(Call(hold, (found, to_expr(other)), "int"))

    def pair(self, low: AtLeast, high: AtLeast) -> None:
        """A lower threshold must not be above an upper one."""
        lower, upper = solve(low.form, self.x, self.facts), solve(high.form, self.x, self.facts)
        if lower is None or upper is None or not self.keep(upper[1] - lower[1]):
            self.note(self.unpaired(low, high))

    def unpaired(self, low: AtLeast, high: AtLeast) -> str:
        """Why a pair is left out."""
        if low.origin == high.origin and reads_at(low.form, self.x):
            return f"{quoted(low)}: what of {self.y} has no equal in {self.x} is visited all the same"
        return f"{quoted(low)} with {quoted(high)} does not give one range of {self.y}"

    def note(self, text: str) -> None:
        """Remember why the shadow may be too large."""
        if text not in self.shadow.notes:
            self.shadow.notes.append(text)


def reads_at(form: Linear, name: str) -> bool:
    """Is a tensor read at an index with this name?"""
    return any(isinstance(at, Read) and name in names_in(at) for term, _ in form.terms for at in nodes(term))


def quoted(literal: Literal) -> str:
    """The words of the file that a literal came from."""
    text: Expr = literal.origin
    return f"`{words(text)}`" if literal.is_true else f"not `{words(text)}`"
