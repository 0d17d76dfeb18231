"""A second look at single tiles of a mask, in numpy, at least work: once a distance, once a distinct tile, or every element."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from attnspec.lowering.analysis.evaluate import Array, Env, evaluate

from attnspec.language.expr import Expr

MOST_TILES = 2**26  # tiles looked at
CHUNK = 2**21  # mask elements at a time


@dataclass(frozen=True)
class Boxes:
    """Tiles by their first element and number of elements, on each axis; parallel arrays."""

    q: Array
    kv: Array
    size_q: Array
    size_kv: Array


@dataclass
class Look:
    """A second look at the tiles of one mask; shape and lengths are (q, kv), `budget` is what is left of it."""

    mask: Expr
    period: int | None
    shape: tuple[int, int]
    lengths: tuple[int, int]
    env: Env
    budget: int

    def affords(self, count: int) -> bool:
        """Can so many tiles be looked at?"""
        area = self.shape[0] * self.shape[1]
        return count <= MOST_TILES and (self.period is not None or count * area <= self.budget)

    def kinds(self, q: Array, kv: Array) -> Array | None:
        """0 empty, 1 partial, 2 full for each pair of tile numbers; None if the budget is spent."""
        boxes = self.boxes(q, kv)
        if self.period == 1:
            return self.by_distance(boxes)
        distinct, back = (boxes, slice(None)) if self.period is None else modulo(boxes, self.period)
        self.budget -= len(distinct.q) * self.shape[0] * self.shape[1]
        return None if self.budget < 0 else by_element(self.mask, distinct, self.shape, self.env)[back]

    def boxes(self, q: Array, kv: Array) -> Boxes:
        """Tiles by number as boxes that end at the lengths."""
        (rows, columns), (len_q, len_kv) = self.shape, self.lengths
        q, kv = q * rows, kv * columns
        return Boxes(q, kv, np.minimum(rows, len_q - q), np.minimum(columns, len_kv - kv))

    @cached_property
    def visible_before(self) -> Array:
        """How many distances are visible below each, from the least that there is."""
        len_q, len_kv = self.lengths
        distance = np.arange(-(len_kv - 1), len_q, dtype=np.int64)
        visible = np.broadcast_to(evaluate(self.mask, self.env.with_names(q=distance, kv=0)), distance.shape)
        return np.concatenate([[0], np.cumsum(visible)])

    def by_distance(self, boxes: Boxes) -> Array:
        """A box has every distance from its least to its greatest."""
        low = boxes.q - (boxes.kv + boxes.size_kv) + self.lengths[1]
        high = low + boxes.size_q + boxes.size_kv - 1
        return kinds(self.visible_before[high] - self.visible_before[low], high - low)


def modulo(boxes: Boxes, period: int) -> tuple[Boxes, Array]:
    """The distinct boxes after a move by whole periods, and which of them each box is."""
    moved = boxes.q // period * period
    q, kv = boxes.q - moved, boxes.kv - moved
    is_short = (boxes.size_q < boxes.size_q.max()) * 2 + (boxes.size_kv < boxes.size_kv.max())
    _, first, back = np.unique((q << 36) + ((kv + 2**31) << 2) + is_short, return_index=True, return_inverse=True)
    return Boxes(q[first], kv[first], boxes.size_q[first], boxes.size_kv[first]), back


def by_element(mask: Expr, boxes: Boxes, shape: tuple[int, int], env: Env) -> Array:
    """Every element of every box."""
    row, column = np.arange(shape[0])[None, :, None], np.arange(shape[1])[None, None, :]
    step = max(1, CHUNK // (shape[0] * shape[1]))
    found = np.zeros(len(boxes.q), dtype=np.int64)
    for start in range(0, len(found), step):
        some = slice(start, start + step)
        q, kv, size_q, size_kv = (at[some, None, None] for at in (boxes.q, boxes.kv, boxes.size_q, boxes.size_kv))
        is_there = (row < size_q) & (column < size_kv)
        visible = evaluate(mask, env.with_names(q=q + row, kv=kv + column)) & is_there
        found[some] = kinds(visible.sum(axis=(1, 2)), (size_q * size_kv)[:, 0, 0])
    return found


def kinds(visible: Array, of: Array) -> Array:
    """0 if no element is visible, 2 if all are, else 1."""
    return np.where(visible == 0, 0, np.where(visible == of, 2, 1))
