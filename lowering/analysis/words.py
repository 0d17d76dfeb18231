"""Expressions in words, for the reasons that analyses give."""

from attnspec.language.expr import Expr, children, nodes
from attnspec.language.show_expr import show_expr

LONGEST = 72  # characters of an expression shown in a reason
MOST_PARTS = 400  # of an expression that is written out


def words(expr: Expr) -> str:
    """The words of the file that an expression came from; written out where it came from no file."""
    span = expr.span
    text = " ".join(span.source.text[span.start : span.end].split()) or written(expr)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def written(expr: Expr) -> str:
    """The expression in the language; of one that shares so much that its text would be endless, only its size."""
    parts = tree_size(expr)
    return show_expr(expr) if parts <= MOST_PARTS else f"an expression of {len(list(nodes(expr)))} shared parts"


def tree_size(expr: Expr) -> int:
    """Number of nodes if nothing were shared."""
    sizes: dict[Expr, int] = {}
    for at in nodes(expr):
        sizes[at] = 1 + sum(sizes[child] for child in children(at))
    return sizes[expr]
