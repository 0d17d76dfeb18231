"""Linear forms in size and index names, and proofs that one is never positive.

An atom is a name or floor(form / divisor). Sizes are at least 1; an index lies in [0, size - 1]. All numbers are integers
of any width: whether the 32-bit value of an expression equals its form is for `ranges` to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attnspec.language.limits import MAX_BATCH, MAX_HEADS, MAX_LENGTH

INDEX_SIZE = {"q": "len_q", "kv": "len_kv", "b": "batch", "h": "heads", "hkv": "kv_heads"}
LARGEST = {"len_q": MAX_LENGTH, "len_kv": MAX_LENGTH, "batch": MAX_BATCH, "heads": MAX_HEADS, "kv_heads": MAX_HEADS}
PROOF_DEPTH = 3  # floor atoms replaced by rational bounds in one proof


@dataclass(frozen=True)
class Floor:
    """floor(form / divisor); the form's coefficients and constant lie in [0, divisor), by `floor_divide`."""

    form: Linear
    divisor: int


Atom = str | Floor


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * atom; terms sorted, no coefficient zero."""

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()

    def __add__(self, other: Linear) -> Linear:
        return linear(self.constant + other.constant, (*self.terms, *other.terms))

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def times(self, factor: int) -> Linear:
        """The form multiplied by a number."""
        return linear(self.constant * factor, tuple((atom, count * factor) for atom, count in self.terms))

    def plus(self, number: int) -> Linear:
        """The form with a number added."""
        return Linear(self.constant + number, self.terms)


def linear(constant: int, terms: Iterable[tuple[Atom, int]]) -> Linear:
    """A form with equal atoms gathered."""
    total: dict[Atom, int] = {}
    for atom, count in terms:
        total[atom] = total.get(atom, 0) + count
    kept = sorted(((atom, count) for atom, count in total.items() if count), key=lambda term: str(term[0]))
    return Linear(constant, tuple(kept))


def name(atom: str) -> Linear:
    """The form of a single name."""
    return Linear(0, ((atom, 1),))


def weight(form: Linear) -> int:
    """How many atoms the form has, those inside floors with them."""
    return sum(1 + (weight(atom.form) if isinstance(atom, Floor) else 0) for atom, _ in form.terms)


def floor_divide(form: Linear, divisor: int) -> Linear:
    """floor(form / divisor), divisor > 0, with whole multiples taken out so that equal values have equal forms."""
    outside = linear(form.constant // divisor, tuple((atom, count // divisor) for atom, count in form.terms))
    inside = linear(form.constant % divisor, tuple((atom, count % divisor) for atom, count in form.terms))
    if not inside.terms:
        return outside
    match inside.terms:
        case ((Floor() as inner, 1),):
            # floor((floor(x / a) + d) / b) = floor((x + d a) / (a b))
            whole = inner.form.plus(inside.constant * inner.divisor)
            return outside + floor_divide(whole, inner.divisor * divisor)
        case _:
            return outside + Linear(0, ((Floor(inside, divisor), 1),))


def is_never_positive(form: Linear) -> bool:
    """True if the form is proved to be at most 0 for all sizes and indices."""
    return _prove(form, PROOF_DEPTH)


def without_indices(form: Linear, upper: bool) -> Linear:
    """A bound of the form in sizes alone: upper, or lower."""
    total = Linear(form.constant)
    for atom, count in form.terms:
        high = upper == (count > 0)
        if isinstance(atom, Floor):
            total += floor_divide(without_indices(atom.form, high), atom.divisor).times(count)
        elif atom in INDEX_SIZE:
            total += name(INDEX_SIZE[atom]).plus(-1).times(count) if high else Linear(0)
        else:
            total += Linear(0, ((atom, count),))
    return total


def most(form: Linear) -> int | None:
    """A number that the form cannot pass, whatever the sizes; None if it grows with one."""
    bound = without_indices(form, upper=True)
    if any(count > 0 for _, count in bound.terms):
        return None
    return bound.constant + sum(count * _least(atom) for atom, count in bound.terms)


def extreme(form: Linear, upper: bool) -> int:
    """The number that the form cannot pass while every size is at most its LARGEST."""
    total = form.constant
    for atom, count in without_indices(form, upper).terms:
        high = upper == (count > 0)
        if isinstance(atom, Floor):
            total += count * (extreme(atom.form, high) // atom.divisor)
        else:
            total += count * (LARGEST[atom] if high else 1)
    return total + without_indices(form, upper).constant - form.constant


def _prove(form: Linear, depth: int) -> bool:
    bound = without_indices(form, upper=True)
    highest = most(bound)
    if highest is not None and highest <= 0:
        return True
    if depth == 0:
        return False
    candidates = (form,) if bound == form else (form, bound)
    return any(_prove(weaker, depth - 1) for at in candidates for weaker in _weaker(at))


def _least(atom: Atom) -> int:
    """A lower bound of an atom; the coefficients inside a floor are never negative."""
    if isinstance(atom, Floor):
        inner = without_indices(atom.form, upper=False)
        return (inner.constant + sum(count * _least(at) for at, count in inner.terms)) // atom.divisor
    return 1


def _weaker(form: Linear) -> Iterable[Linear]:
    """Forms that are at most 0 only if this one is: one floor replaced by a bound, or by a floor beside it."""
    for atom, count in form.terms:
        if not isinstance(atom, Floor):
            continue
        rest = form - Linear(0, ((atom, count),))
        # (x - c + 1) / c <= floor(x / c) <= x / c, all multiplied by c.
        bound = atom.form if count > 0 else atom.form.plus(1 - atom.divisor)
        yield rest.times(atom.divisor) + bound.times(count)
        for other, _ in form.terms:
            if isinstance(other, Floor) and other is not atom and _is_beside(atom, other):
                step = atom.form.constant - other.form.constant
                slack = int(step > 0) if count > 0 else -int(step < 0)
                yield rest + Linear(slack, ((other, 1),)).times(count)


def _is_beside(one: Floor, other: Floor) -> bool:
    """Floors of forms that differ by a number smaller than their divisor."""
    return one.divisor == other.divisor and one.form.terms == other.form.terms


def show_linear(form: Linear) -> str:
    """The form as a person would write it in the language: what is added first, then what is taken away."""
    parts = [(count, _show_atom(atom, abs(count))) for atom, count in form.terms]
    if form.constant or not parts:
        parts.append((form.constant, str(abs(form.constant))))
    added = [text for count, text in parts if count >= 0]
    taken = [text for count, text in parts if count < 0]
    if added:
        return " - ".join([" + ".join(added), *taken])
    return "-" + " - ".join(taken)


def _show_atom(atom: Atom, count: int) -> str:
    if isinstance(atom, Floor):
        shown = show_linear(atom.form)
        inner = f"{shown} // {atom.divisor}" if shown.isidentifier() else f"({shown}) // {atom.divisor}"
    else:
        inner = atom
    if count == 1:
        return inner
    return f"{count} * ({inner})" if isinstance(atom, Floor) else f"{count} * {inner}"
