"""Which values of a tile are brought to shared memory once, before its elements ask for them.

What depends on the key alone has as many values in a tile as it has keys; what depends on q - kv alone, as many as it has
diagonals. Read by each element, either would be read once for every element, from global memory.
"""

from dataclasses import dataclass
from typing import Literal

from attnspec.lowering.analysis.addresses import is_of_distance
from attnspec.lowering.simplify import simplify

from attnspec.language.expr import Binary, Expr, Name, Number, Read, children, names, nodes, substitute, with_children
from attnspec.language.spec import Spec

Axis = Literal["key", "distance"]
Q, KV = Name("q", "int"), Name("kv", "int")
PLACES: dict[Axis, Expr] = {"key": KV, "distance": Binary("-", Q, KV, "int")}  # of an element, as the staged value's index
DISTANCE = Name("distance", "int")
MOST = 8  # values staged for a tile: 8 KB for one query tile, if all are of distances
PREFIX = "staged "  # of the tensors that stand for staged values; no name in a file has a space
WORD_BYTES = 4


@dataclass(frozen=True)
class StagedValue:
    """A value of a key, in terms of `kv`, or of a distance, in terms of `distance`. in_score: not of the mask only."""

    expr: Expr
    axis: Axis
    in_score: bool

    def words(self, tile_q: int, tile_kv: int) -> int:
        """Words of a tile: a value a key; a value a diagonal, of which there are tile_q + tile_kv - 1, and one to spare."""
        return tile_kv if self.axis == "key" else tile_q + tile_kv


@dataclass(frozen=True)
class Staging:
    """The score and the mask with reads of `staged n` for the n-th value."""

    score: Expr
    mask: Expr | None
    values: tuple[StagedValue, ...]

    def bytes(self, tile_q: int, tile_kv: int) -> int:
        """Shared memory of one query tile."""
        return sum(value.words(tile_q, tile_kv) for value in self.values) * WORD_BYTES


def stage(spec: Spec) -> Staging:
    """Stages the largest numeric parts of score and mask that read a tensor by the key, and depend on key or distance alone."""
    finder = _Finder()
    score = finder.visit(spec.score, in_score=True)
    mask = finder.visit(spec.mask, in_score=False) if spec.mask is not None else None
    return Staging(score, mask, tuple(finder.found.values()))


def staged_number(at: Read) -> int | None:
    """Which staged value a read stands for; None for a read of a tensor of the file."""
    return int(at.tensor.removeprefix(PREFIX)) if at.tensor.startswith(PREFIX) else None


class _Finder:
    def __init__(self) -> None:
        self.found: dict[Expr, StagedValue] = {}
        self.number: dict[Expr, int] = {}

    def visit(self, at: Expr, in_score: bool) -> Expr:
        axis = _axis(at)
        if axis is not None and (at in self.found or len(self.found) < MOST):
            if at not in self.found:
                self.number[at] = len(self.found)
                self.found[at] = StagedValue(_of_axis(at, axis), axis, in_score)
            return Read(f"{PREFIX}{self.number[at]}", (PLACES[axis],), at.kind, at.span, at.label)
        return with_children(at, tuple(self.visit(child, in_score) for child in children(at)))


def _axis(at: Expr) -> Axis | None:
    """What a part worth staging depends on; None if it is not worth it."""
    if at.kind == "bool" or not any(isinstance(node, Read) and "kv" in names(node) for node in nodes(at)):
        return None
    used = names(at)
    if "score" in used:
        return None
    if "q" not in used:
        return "key"
    return "distance" if is_of_distance(at) else None


def _of_axis(at: Expr, axis: Axis) -> Expr:
    if axis == "key":
        return at
    return simplify(substitute(substitute(at, "q", DISTANCE), "kv", Number(0, "int")))
