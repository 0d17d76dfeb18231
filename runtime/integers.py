"""Integer expressions at the sizes of a call: their values, and a proof that none leaves 32 bits."""

from collections.abc import Callable, Mapping

from attnspec.errors import IntegerOverflowError
from attnspec.language.expr import Expr
from attnspec.language.intervals import Interval, first_overflow, interval_of, overflow_fault


def value_at(expr: Expr, sizes: Mapping[str, int]) -> int:
    """Value of an int expression in size names."""
    low, high = interval_of(expr, {name: (size, size) for name, size in sizes.items()}, {})
    if low != high:
        raise ValueError(f"{written(expr)} is not fixed by the sizes")
    return low


def extent_at(expr: Expr, sizes: Mapping[str, int]) -> int:
    """Length of a declared axis: 0 where the expression is less, as `len_q + len_kv - 1` is without rows and keys."""
    return max(0, value_at(expr, sizes))


def written(expr: Expr) -> str:
    """An expression as the person wrote it."""
    return expr.span.source.text[expr.span.start : expr.span.end] or "an expression"


def check_integers(exprs: list[Expr], names: Mapping[str, Interval], tensors: Callable[[str], Interval], sizes: str) -> None:
    """IntegerOverflowError if an int in the expressions may leave 32 bits.

    names: range of each given name. tensors: range of a tensor's values, asked only where an expression reads it.
    sizes: the call's sizes in words, for the message.
    """
    found = first_overflow(exprs, names, tensors)
    if found is not None:
        raise IntegerOverflowError(overflow_fault(*found, f"at {sizes}"))
