"""What the elements of a row have in common: sub-expressions without key and score, computed once a row."""

from attnspec.backends.sm100.emit.dialect import ROW

from attnspec.language.expr import Expr, Name, Number, Truth, children, names, with_children

ELEMENT_NAMES = frozenset({"kv", "score"})


def hoist(exprs: list[Expr]) -> tuple[list[Expr], list[Expr]]:
    """(row values, the expressions over them): the largest parts that name neither `kv` nor `score`, each once.

    A leaf is not worth a register; a boolean part is left in place, since a row value must be a number.
    """
    found: dict[Expr, Name] = {}

    def visit(at: Expr) -> Expr:
        if isinstance(at, Name | Number | Truth):
            return at
        if at.kind != "bool" and not names(at) & ELEMENT_NAMES:
            return found.setdefault(at, Name(f"{ROW}{len(found)}", at.kind, at.span, at.label))
        return with_children(at, tuple(visit(child) for child in children(at)))

    rewritten = [visit(expr) for expr in exprs]
    return list(found), rewritten
