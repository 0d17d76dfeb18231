"""How a read of a tensor is addressed, and which indices its address fixes."""

from fractions import Fraction

from attnspec.lowering.analysis.analysed import Address
from attnspec.lowering.analysis.linear import linear
from attnspec.lowering.analysis.words import words

from attnspec.language.expr import Expr, Name, Read, children, names, nodes

SUMMED = ("b", "h", "q", "kv")


def address_of(indices: tuple[Expr, ...]) -> tuple[Address, str]:
    """The class of an address, and why.

    row and key hold for any function of q, or kv, alone, even one read from a tensor: it is found once a row, or key.
    """
    used = frozenset[str]().union(*map(names, indices))
    if "q" in used and "kv" in used:
        return both_positions(indices)
    if "q" in used:
        return "row", "the address has q and not kv: once a row"
    if "kv" in used:
        return "key", "the address has kv and not q: once a key"
    if used & {"b", "h", "hkv"}:
        return "head", "the address has neither q nor kv: once a head"
    return "scalar", "the address is the same everywhere"


def both_positions(indices: tuple[Expr, ...]) -> tuple[Address, str]:
    """An address in which q and kv occur."""
    if all(is_of_distance(at) for at in indices):
        return "distance", "q and kv occur as q - kv only: one value a diagonal of the tile"
    for at in indices:
        inner = next((node for node in nodes(at) if isinstance(node, Read) and {"q", "kv"} & names(node)), None)
        if inner is not None and {"q", "kv"} <= names(at):
            return "scattered", f"the address depends on data, `{words(inner)}`"
        if not is_affine(at):
            return "scattered", f"`{words(at)}` is no sum of multiples of q and kv"
    return "element", "the address is a sum of multiples of q and kv: one value an element"


def is_of_distance(expr: Expr) -> bool:
    """Do q and kv occur in it only as q - kv?"""
    if not {"q", "kv"} & names(expr):
        return True
    if isinstance(expr, Name):
        return False
    if expr.kind != "int":
        return all(map(is_of_distance, children(expr)))
    form = linear(expr)
    if form.coefficient(Name("q", "int")) != -form.coefficient(Name("kv", "int")):
        return False
    rest = [term for term, _ in form.terms if not isinstance(term, Name)]
    return all(is_of_distance(child) for term in rest for child in children(term))


def is_affine(expr: Expr) -> bool:
    """Is it a sum of multiples of names and of values without q and kv?"""
    return all(isinstance(term, Name) or not {"q", "kv"} & names(term) for term, _ in linear(expr).terms)


def reduced_indices(indices: tuple[Expr, ...], among: tuple[str, ...] = SUMMED) -> tuple[str, ...]:
    """The indices (of b, h, q, kv) that the address does not fix: those that other elements with this address differ in.

    An index is fixed if it is a combination of the index expressions (all of them sums) over the rationals.
    """
    rows = []
    for at in indices:
        if is_affine_in_all(at):
            form = linear(at)
            rows.append([Fraction(form.coefficient(Name(name, "int"))) for name in SUMMED])
    basis = reduced_rows(rows)
    fixed = {SUMMED[row.index(Fraction(1))] for row in basis if sum(value != 0 for value in row) == 1}
    return tuple(name for name in among if name not in fixed)


def is_affine_in_all(expr: Expr) -> bool:
    """Is it a sum of multiples of b, h, q, kv and of values without any index?"""
    moving = {*SUMMED, "hkv"}
    return all((isinstance(term, Name) and term.name != "hkv") or not moving & names(term) for term, _ in linear(expr).terms)


def reduced_rows(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """Reduced row echelon form."""
    basis: list[list[Fraction]] = []
    rows = [list(row) for row in rows]
    for column in range(len(SUMMED)):
        pivot = next((row for row in rows if row[column] != 0), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        pivot = [value / pivot[column] for value in pivot]

        def without(row: list[Fraction], pivot: list[Fraction] = pivot, column: int = column) -> list[Fraction]:
            return [value - row[column] * lead for value, lead in zip(row, pivot, strict=True)]

        rows = [without(row) for row in rows]
        basis = [*map(without, basis), pivot]
    return basis
