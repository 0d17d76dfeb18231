"""How a call is cut into work tiles: rows of a head, heads of a group beside each other, parts of the keys.

Heads of a group share their keys and values. Where a head has few rows, a work tile holds several heads of one group: its rows
are pairs (head, row), the rows of a head together. Where there are few work tiles, several of them share out the key tiles of
the same rows, and `merge` puts their results together.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
from attnspec.backends.cute.kernel.plan import Widths
from cutlass import Int32

FEW = 8  # rows of the least box that keeps its place in the swizzle


@dataclass(frozen=True)
class Rows:
    """A number of rows that is a power of two, 2^bits; an Int32 where the call decides."""

    bits: Any

    @property
    def count(self) -> Any:
        """The number."""
        return 1 << self.bits if isinstance(self.bits, int) else Int32(1) << self.bits


@dataclass(frozen=True)
class Whole:
    """A number of rows that is none, known while compiling: three warpgroups of 64 rows."""

    count: int


@dataclass(frozen=True)
class Cut:
    """row_bits: log2 of the rows that a work tile has of each head, None where all its rows are of one; parts: of the keys."""

    row_bits: Any
    parts: Any


def power(rows: int | Rows) -> Rows:
    """A number known while compiling as a power of two."""
    return rows if isinstance(rows, Rows) else Rows((rows - 1).bit_length())


def number(rows: int | Rows | Whole) -> Rows | Whole:
    """A number known while compiling as a power of two, if it is one."""
    return rows if isinstance(rows, Rows | Whole) else power(rows) if rows & (rows - 1) == 0 else Whole(rows)


def over(value: Any, rows: int | Rows | Whole) -> Any:
    """value / rows, rounded down; value is not negative."""
    found = number(rows)
    return value // found.count if isinstance(found, Whole) else value >> found.bits


def blocks(value: Any, rows: int | Rows | Whole) -> Any:
    """Blocks of so many rows that hold `value` of them."""
    return over(value + (number(rows).count - 1), rows)


def times(value: Any, rows: int | Rows | Whole) -> Any:
    """value * rows."""
    found = number(rows)
    return value * found.count if isinstance(found, Whole) else value << found.bits


def rows_of(plan: Widths, cut: Cut | None) -> Rows | Whole:
    """Rows that a work tile has of each head."""
    return number(plan.work_rows) if cut is None or cut.row_bits is None else Rows(cut.row_bits)


def parts_of(cut: Cut | None) -> Any:
    """Work tiles that share the keys of the same rows."""
    return 1 if cut is None else cut.parts


def chunks(plan: Widths, cut: Cut | None, group: Any) -> Any:
    """Work tiles in which the heads of a group have a block of rows; one for each head where tiles are of one head."""
    if cut is None or cut.row_bits is None:
        return group
    return over(group + (heads_of(plan, cut) - 1), Rows(_head_bits(plan, cut)))


def heads_of(plan: Widths, cut: Cut | None) -> Any:
    """Heads that a work tile has room for."""
    return 1 if cut is None or cut.row_bits is None else Rows(_head_bits(plan, cut)).count


def _head_bits(plan: Widths, cut: Cut) -> Any:
    return power(plan.work_rows).bits - cut.row_bits


def choose_row_bits(plan: Widths, rows: Any, group: Any) -> Any:
    """Log2 of the rows of a head for the fewest work tiles: as many as there are, unless fewer save an eighth of the tiles.

    rows: of a sequence; group: heads that share their keys.
    """
    whole = power(plan.work_rows).bits
    chosen: Any = Int32(whole)
    least: Any = blocks(rows, Rows(whole)) * group
    for bits in range(whole - 1, power(FEW).bits - 1, -1):
        tiles = blocks(rows, Rows(bits)) * blocks(group, Rows(whole - bits))
        pays = tiles * 8 <= least * 7
        chosen = Int32(cutlass.select_(pays, Int32(bits), chosen))
        least = Int32(cutlass.select_(pays, tiles, least))
    return chosen


@dataclass(frozen=True)
class Own:
    """A row of a query tile. head: of the work tile's heads; first: the query tile's first row, from the work tile's first;
    place: the row, from there; span: rows of a head that the query tile has."""

    head: Any
    first: Any
    place: Any
    span: Any


def own_row(plan: Widths, cut: Cut | None, lane: Any, thread: Any) -> Own:
    """Which row a thread of a query tile has."""
    if cut is None or cut.row_bits is None:
        return Own(0, lane * plan.tile_q, thread, plan.tile_q)
    rows = Rows(cut.row_bits)
    at = Int32(lane) * plan.tile_q + thread
    place = thread & (rows.count - 1)
    return Own(over(at, rows), Int32(lane) * plan.tile_q & (rows.count - 1), place, cutlass.min(rows.count, Int32(plan.tile_q)))
