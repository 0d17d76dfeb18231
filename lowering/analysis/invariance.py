"""Moves of q and kv together that leave a mask as it is."""

from math import lcm

from attnspec.lowering.analysis.linear import linear, to_expr

from attnspec.language.expr import Binary, Compare, Expr, Name, Number, children, nodes, rewrite, substitute, with_children

LARGEST_PERIOD = 2**20


def shift_period(mask: Expr) -> int | None:
    """The least period found: mask(q + period, kv + period) = mask(q, kv) for all integers; None if there is none.

    Period 1 means a function of q - kv alone. The proof is that both sides have the same canonical form.
    """
    mask = canonical(mask)
    divisors = [at.right for at in nodes(mask) if isinstance(at, Binary) and at.op == "//"]
    sizes = [int(at.value) for at in divisors if isinstance(at, Number)]
    for period in (1, lcm(*sizes)):
        if period <= LARGEST_PERIOD and canonical(shifted(mask, period)) == mask:
            return period
    return None


def shifted(mask: Expr, period: int) -> Expr:
    """The mask at q + period, kv + period."""
    for name in ("q", "kv"):
        mask = substitute(mask, name, Binary("+", Name(name, "int"), Number(period, "int"), "int"))
    return mask


def canonical(mask: Expr) -> Expr:
    """Every int as a sum in canonical form, comparisons of ints as the sign of a difference."""

    def change(at: Expr) -> Expr:
        if isinstance(at, Compare) and at.left.kind == "int":
            return Compare(at.op, to_expr(linear(at.left) - linear(at.right)), Number(0, "int"))
        inner = tuple(to_expr(linear(child)) if child.kind == "int" else child for child in children(at))
        return with_children(at, inner)

    return rewrite(mask, change)
