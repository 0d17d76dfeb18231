"""The two rows of a tile that a thread has a part of, and its scores of them: scaled, scored and masked.

Four threads share a row. A thread's keys are 2 * (lane % 4) and the next of every eight; a mask word, asked from the first of
them on, has bits for those alone: a word for 128 keys.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, Bits, asking, keys_below
from attnspec.backends.cute.kernel.bundles import Mods
from attnspec.backends.cute.kernel.work import At, again
from attnspec.backends.sm90.kernel.blocks.staging import Staged
from cutlass import Float32, Uint32

EIGHT = 8  # columns that the four threads of a row share
PAIR = 2  # of them, a thread's
WORD_COLUMNS = WORD // PAIR * EIGHT  # of which a word has a thread's


def row_of(index: int) -> int:
    """Which of a thread's two rows its value number `index` is of."""
    return index // 2 % 2


def bit_of(index: int) -> int:
    """The number of a value among the thread's of its row."""
    return index // 4 * PAIR + index % PAIR


def own_bits(columns: int) -> Bits:
    """Bits of a thread's columns, of so many: the last word of a row may be shorter."""
    return Bits(PAIR, EIGHT, min(WORD, columns // EIGHT * PAIR))


def column_of(index: int) -> int:
    """The column of a value, counted from the thread's first."""
    return index // 4 * EIGHT + index % 2


@dataclass(frozen=True)
class Element:
    """Where a thread's scores are. q, row: of each of its rows the position, and what its elements share.

    first_key: the thread's first. staged: what reads values of keys and distances from shared memory, by row, if there are any.
    """

    q: tuple[Any, Any]
    first_key: Any
    at: At
    row: tuple[Any, Any]
    staged: tuple[Staged, Staged] | None = None

    def renewed(self) -> "Element":
        """The same values, known only from here on: or the compiler adds every key to them before the loop, and spills."""
        row = tuple(tuple(again(value) for value in one) for one in self.row)
        return replace(self, q=tuple(again(one) for one in self.q), row=row)


def scored(mods: Mods, s: list[Float32], element: Element) -> list[Float32]:
    """Scores as the file has them, of what is q . k; scaled where the scale is not folded away."""
    if mods.scale is None:
        return s
    scale, found = Float32(mods.scale(element.at)), []
    for index, value in enumerate(s):
        value = f32.times(value, scale)
        if mods.score is not None:
            row, column = row_of(index), column_of(index)
            near = () if element.staged is None else (element.staged[row].at(column),)
            value = mods.score(value, element.q[row], element.first_key + column, element.at, element.row[row], *near)
        found.append(value)
    return found


def masked(mods: Mods, s: list[Float32], element: Element) -> list[Float32]:
    """-inf where the key is hidden or beyond the sequence."""
    hidden, found = f32.constant(-math.inf), list(s)
    columns = len(s) * 2
    for first in range(0, columns, WORD_COLUMNS):
        with asking(own_bits(columns - first)):
            words = [_visible(mods, element, row, first) for row in range(2)]
        # A row after the other: ptxas takes seven bits of a word at a time (R2P), and two where rows take turns.
        for index in sorted(range(first // 2, min((first + WORD_COLUMNS) // 2, len(s))), key=row_of):
            found[index] = f32.where_bit(words[row_of(index)], bit_of(index) % WORD, found[index], hidden)
    return found


def _visible(mods: Mods, element: Element, row: int, first: int) -> Uint32:
    """Word of a row's keys that it sees, from a column on."""
    key = element.first_key + first
    beyond = keys_below(element.at.kv_end, key)
    if mods.mask is None:
        return beyond
    near = () if element.staged is None else (element.staged[row].moved(first),)
    return beyond & mods.mask(element.q[row], key, element.at, element.row[row], *near)
