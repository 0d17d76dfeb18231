"""What the elements of a row, or of a key, have in common: sub-expressions without the other position, computed once."""

from attnspec.backends.cute.emit.dialect import KEY, ROW
from attnspec.lowering.indices import INSIDE

from attnspec.language.expr import Call, Expr, Name, Number, Truth, children, names, with_children

ELEMENT_NAMES = {"q": frozenset({"kv", "score"}), "kv": frozenset({"q", "score"})}
PREFIXES = {"q": ROW, "kv": KEY}


def hoist(exprs: list[Expr], fixed: str = "q") -> tuple[list[Expr], list[Expr]]:
    """(values of a row, the expressions over them): the largest parts that name neither `kv` nor `score`, each once.

    fixed: the position that all elements share, `q` of a row; `kv` of a key, whose parts name neither `q` nor `score`.

    A leaf is not worth a register; a boolean part is left in place, since a row value must be a number.
    """
    found: dict[Expr, Name] = {}

    def visit(at: Expr) -> Expr:
        if isinstance(at, Name | Number | Truth):
            return at
        if isinstance(at, Call) and at.function == INSIDE:  # said to who reads; a value is held without it
            return with_children(at, tuple(visit(child) for child in children(at)))
        if at.kind != "bool" and not names(at) & ELEMENT_NAMES[fixed]:
            return found.setdefault(at, Name(f"{PREFIXES[fixed]}{len(found)}", at.kind, at.span, at.label))
        return with_children(at, tuple(visit(child) for child in children(at)))

    rewritten = [visit(expr) for expr in exprs]
    return list(found), rewritten
