"""What a name or a sub-expression stands for while a file is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard, get_args

from attnspec.language.expr import Expr
from attnspec.language.source import NOWHERE, Span
from attnspec.language.spec import Tensor


@dataclass(frozen=True)
class WholeTensor:
    """A declared tensor that is not indexed yet: an argument of a function."""

    tensor: Tensor
    span: Span = NOWHERE


@dataclass(frozen=True)
class NoValue:
    """`none`, an argument that is left out."""

    span: Span = NOWHERE


@dataclass(frozen=True)
class Faulty:
    """A value that could not be found; the fault is reported, what rests on it is not."""


FAULTY = Faulty()
Value = Expr | WholeTensor | NoValue | Faulty
_NODES = get_args(Expr)


def is_expr(value: Value) -> TypeGuard[Expr]:
    """Whether a value is a typed expression."""
    return isinstance(value, _NODES)


KIND_WORDS = {"int": "an integer", "float": "a float", "bool": "a boolean"}


def describe(value: Value) -> str:
    """What a value is, in words."""
    match value:
        case WholeTensor():
            return f"the tensor `{value.tensor.name}`"
        case NoValue():
            return "`none`"
        case Faulty():
            return "a faulty value"
        case _:
            return KIND_WORDS[value.kind]
