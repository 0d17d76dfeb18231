"""Values of expressions in numpy, for any array of positions at once."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
    Search,
    Select,
    Truth,
    Unary,
)

Array = Any  # numpy arrays of int64, float64 or bool, and scalars that broadcast with them

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
    "and": np.logical_and,
    "or": np.logical_or,
}


def floor_int(value: Array) -> Array:
    """Floor to int32's range; NaN gives 0."""
    return np.floor(np.clip(np.nan_to_num(value, nan=0.0), -(2.0**31), 2.0**31 - 1)).astype(np.int64)


CALLS: dict[str, Callable[..., Array]] = {
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "floor": floor_int,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


@dataclass(frozen=True)
class Env:
    """Values for one head of one batch element: given names (scalars or arrays that broadcast) and tensors as arrays."""

    names: Mapping[str, Array]
    tensors: Mapping[str, Array] = field(default_factory=dict)

    def with_names(self, **names: Array) -> "Env":
        """The same, with more names."""
        return Env({**self.names, **names}, self.tensors)


def evaluate(expr: Expr, env: Env) -> Array:
    """The value in int64, float64 or bool; shared nodes are computed once.

    An index outside its axis is held to the axis, as emitted code does; of `Select`, both sides are computed.
    """
    done: dict[Expr, Array] = {}

    def visit(at: Expr) -> Array:
        if at not in done:
            done[at] = value_of(at, env, visit)
        return done[at]

    with np.errstate(all="ignore"):
        return visit(expr)


def value_of(at: Expr, env: Env, visit: Callable[[Expr], Array]) -> Array:
    """One node."""
    match at:
        case Number():
            return np.float64(at.value) if at.kind == "float" else np.int64(at.value)
        case Truth():
            return np.bool_(at.value)
        case Name():
            return np.asarray(env.names[at.name], dtype=np.float64 if at.kind == "float" else np.int64)
        case Read():
            return read(env.tensors[at.tensor], [visit(index) for index in at.indices])
        case Search():
            return search(env.tensors[at.tensor], [visit(index) for index in at.prefix], visit(at.value), at.side)
        case Unary():
            return np.logical_not(visit(at.operand)) if at.op == "not" else np.negative(visit(at.operand))
        case Binary() | Compare() | Logic():
            return BINARY[at.op](visit(at.left), visit(at.right))
        case Select():
            return np.where(visit(at.condition), visit(at.if_true), visit(at.if_false))
        case Call():
            return CALLS[at.function](*map(visit, at.arguments))
        case Convert():
            return np.asarray(visit(at.operand), dtype=np.float64)


def read(tensor: Array, indices: list[Array]) -> Array:
    """An element, or one per position."""
    array = np.asarray(tensor)
    if array.size == 0:  # no index is inside it: nothing uses the value
        return np.zeros(np.broadcast_shapes(*map(np.shape, indices)), dtype=array.dtype)
    held = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(indices, array.shape, strict=True))
    found = array[held]
    return found if found.dtype == bool else found.astype(np.float64 if found.dtype.kind == "f" else np.int64)


def search(tensor: Array, prefix: list[Array], value: Array, side: Any) -> Array:
    """Where values belong in a sorted row; the row is the same for all of them, or one each."""
    array = np.asarray(tensor)
    if all(np.ndim(index) == 0 for index in prefix):
        row = array[tuple(int(index) for index in prefix)]
        return np.asarray(np.searchsorted(row, value, side), dtype=np.int64)
    *rows, values = np.broadcast_arrays(*prefix, value)
    found = np.empty(values.shape, dtype=np.int64)
    for place in np.ndindex(values.shape):
        found[place] = np.searchsorted(array[tuple(int(row[place]) for row in rows)], values[place], side)
    return found


def names_for(
    b: int = 0, h: int = 0, *, batch: int = 1, heads: int = 1, kv_heads: int = 1, len_q: int, len_kv: int, **more: Array
) -> dict[str, Array]:
    """The given names of one head, with `hkv` from the group."""
    names = {"b": b, "h": h, "hkv": h // (heads // kv_heads), "batch": batch, "heads": heads, "kv_heads": kv_heads}
    return {**names, "len_q": len_q, "len_kv": len_kv, "inf": math.inf, **more}
