"""The slow truth that analyses are held to: expressions as Python text, one element at a time."""

import math
from collections.abc import Callable
from typing import Any

from attnspec.lowering.analysis.tiles import Runs

from attnspec.language.expr import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Logic,
    Name,
    Number,
    Read,
    Select,
    Truth,
    Unary,
)

GLOBALS = {
    "min": min,
    "max": max,
    "abs": abs,
    "inf": math.inf,
    "floor": math.floor,
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


def python_text(expr: Expr) -> str:
    """The expression in Python, whose `//` and `%` floor as ours do."""
    match expr:
        case Number() | Truth():
            return f"({expr.value})"
        case Name():
            return expr.name
        case Read():
            return f"T[{expr.tensor!r}]" + "".join(f"[{python_text(at)}]" for at in expr.indices)
        case Unary():
            return f"({'-' if expr.op == '-' else 'not '}{python_text(expr.operand)})"
        case Binary() | Compare() | Logic():
            return f"({python_text(expr.left)} {expr.op} {python_text(expr.right)})"
        case Select():
            return f"({python_text(expr.if_true)} if {python_text(expr.condition)} else {python_text(expr.if_false)})"
        case Call():
            return f"{expr.function}({', '.join(map(python_text, expr.arguments))})"
        case Convert():
            return f"float({python_text(expr.operand)})"
    raise AssertionError(expr)


def function_of(expr: Expr, *names: str, **fixed: object) -> Callable[..., Any]:
    """A Python function of the given names; `fixed` gives the other names, and `T` the tensors as nested lists."""
    return eval(f"lambda {', '.join(names)}: {python_text(expr)}", {**GLOBALS, **fixed})


def brute_classes(mask: Expr | None, axis: str, tile_q: int, tile_kv: int, len_q: int, len_kv: int, **fixed) -> list[list[str]]:
    """The class of every tile, element by element: rows are tiles of the axis at hand, columns of the walked one."""
    is_visible = function_of(mask or Truth(True), "q", "kv", len_q=len_q, len_kv=len_kv, **fixed)
    grid = [[bool(is_visible(q, kv)) for kv in range(len_kv)] for q in range(len_q)]
    size, walked_size = tile_q, tile_kv
    if axis == "q":
        grid = [[grid[q][kv] for q in range(len_q)] for kv in range(len_kv)]
        size, walked_size = tile_kv, tile_q
    found = []
    for start in range(0, len(grid), size):
        rows = grid[start : start + size]
        columns = range(0, len(rows[0]), walked_size)
        cells = [[value for row in rows for value in row[at : at + walked_size]] for at in columns]
        found.append(["full" if all(cell) else "partial" if any(cell) else "empty" for cell in cells])
    return found


def run_classes(runs: Runs) -> list[list[str]]:
    """The same table from runs."""
    found = []
    for items in runs:
        row = ["empty"] * runs.tiles_walked
        for kind, first, last in items:
            assert first < last
            assert row[first:last] == ["empty"] * (last - first), "runs overlap"
            row[first:last] = [kind] * (last - first)
        found.append(row)
    return found


def assert_sound(found: list[list[str]], truth: list[list[str]]) -> None:
    """Nothing visible is skipped and nothing masked is called full."""
    for row, true_row in zip(found, truth, strict=True):
        for claim, true in zip(row, true_row, strict=True):
            assert claim in (true, "partial"), (claim, true)
