"""Which values of a tile are brought to shared memory once, before its elements ask for them.

What depends on the key alone has as many values in a tile as it has keys; what depends on q - kv alone, as many as it has
diagonals. Read by each element, either would be read once for every element, from global memory. A tensor with an element for
each query and key is read once an element anyway; but TMA brings a tile of it, where each thread would ask for a row of its own.
"""

from dataclasses import dataclass
from typing import Literal

from attnspec.lowering.analysis.addresses import is_of_distance
from attnspec.lowering.analysis.sorted_masks import solve_sorted
from attnspec.lowering.simplify import simplify

from attnspec.language.expr import Binary, Expr, Name, Number, Read, children, names, nodes, substitute, with_children
from attnspec.language.spec import Spec

Axis = Literal["key", "distance", "element"]
Q, KV = Name("q", "int"), Name("kv", "int")
SHARED = {"b", "h", "hkv", "heads", "kv_heads", "batch", "len_q", "len_kv"}  # names that a tile's elements share
PLACES: dict[Axis, Expr] = {"key": KV, "distance": Binary("-", Q, KV, "int")}  # of an element, as the staged value's index
DISTANCE = Name("distance", "int")
MOST = 8  # values staged for a tile: 8 KB for one query tile, if all are of distances
MOST_TILES = 2  # tensors of which tiles are brought
MOST_AXES = 5  # of a tensor that TMA takes boxes of
PREFIX = "staged "  # of the tensors that stand for staged values; no name in a file has a space
WORD_BYTES = 4


@dataclass(frozen=True)
class StagedValue:
    """A value of a key, in terms of `kv`, of a distance, in terms of `distance`, or a tensor's element of `q` and `kv`.

    in_score: not of the mask only.
    """

    expr: Expr
    axis: Axis
    in_score: bool

    def words(self, tile_q: int, tile_kv: int) -> int:
        """Words that threads bring: one a key; one a diagonal, of which there are tile_q + tile_kv - 1, and one to spare."""
        return {"key": tile_kv, "distance": tile_q + tile_kv, "element": 0}[self.axis]

    @property
    def read(self) -> Read:
        """Of an element: the read of its tensor."""
        assert isinstance(self.expr, Read) and self.axis == "element"
        return self.expr


@dataclass(frozen=True)
class Staging:
    """The score and the mask with reads of `staged n` for the n-th value."""

    score: Expr
    mask: Expr | None
    values: tuple[StagedValue, ...]

    def bytes(self, tile_q: int, tile_kv: int) -> int:
        """Shared memory of one query tile."""
        return sum(value.words(tile_q, tile_kv) for value in self.values) * WORD_BYTES

    @property
    def tiles(self) -> tuple[StagedValue, ...]:
        """Those of which TMA brings tiles."""
        return tuple(value for value in self.values if value.axis == "element")


def stage(spec: Spec, tiles: int = 0, most: int = MOST) -> Staging:
    """Stages the largest numeric parts of score and mask that read a tensor by the key, and depend on key or distance alone.

    tiles: of so many tensors that have an element for each query and key, too; most: values of keys and distances. Comparisons
    with sorted tensors have been solved for the key, and read nothing.
    """
    finder = _Finder(tiles, most)
    score = finder.visit(spec.score, in_score=True)
    solved = solve_sorted(spec, "kv")
    mask = finder.visit(solved, in_score=False) if solved is not None else None
    return Staging(score, mask, tuple(finder.found.values()))


def staged_number(at: Read) -> int | None:
    """Which staged value a read stands for; None for a read of a tensor of the file."""
    return int(at.tensor.removeprefix(PREFIX)) if at.tensor.startswith(PREFIX) else None


class _Finder:
    def __init__(self, tiles: int, most: int) -> None:
        self.tiles = tiles
        self.most = most
        self.found: dict[Expr, StagedValue] = {}
        self.number: dict[Expr, int] = {}

    def visit(self, at: Expr, in_score: bool) -> Expr:
        axis = "element" if is_of_element(at) else _axis(at)
        if axis is not None and (at in self.found or self.has_room(axis)):
            if at not in self.found:
                self.number[at] = len(self.found)
                self.found[at] = StagedValue(_of_axis(at, axis), axis, in_score)
            places = (Q, KV) if axis == "element" else (PLACES[axis],)
            return Read(f"{PREFIX}{self.number[at]}", places, at.kind, at.span, at.label)
        return with_children(at, tuple(self.visit(child, in_score) for child in children(at)))

    def has_room(self, axis: Axis) -> bool:
        """Whether there may be another of this sort."""
        count = sum((value.axis == "element") == (axis == "element") for value in self.found.values())
        return count < (self.tiles if axis == "element" else self.most)


def is_of_element(at: Expr) -> bool:
    """Whether an expression is an element of the query and the key, a tensor's last axes, at other indices that a tile shares."""
    if not isinstance(at, Read) or staged_number(at) is not None or not 2 <= len(at.indices) <= MOST_AXES:
        return False
    *others, query, key = at.indices
    shared = all(names(other) <= SHARED and not any(isinstance(node, Read) for node in nodes(other)) for other in others)
    return (query, key) == (Q, KV) and shared


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
    if axis != "distance":
        return at
    return simplify(substitute(substitute(at, "q", DISTANCE), "kv", Number(0, "int")))
