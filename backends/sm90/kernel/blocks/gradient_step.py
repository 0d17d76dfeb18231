"""One step of the backward on a thread's part of a tile: two keys, two queries in eight, all in registers.

P = exp2(S - LSE), dS = P (dP - delta), times the score's derivative. Rows of the products are keys, so log-sum-exp and delta are
the columns': a thread reads those of its queries from shared memory, a pair at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cutlass
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, all_keys, asking, keys_below
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.query_walk import KeyAt
from attnspec.backends.cute.kernel.work import again
from attnspec.backends.sm90.kernel.blocks import scalar
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT, WORD_COLUMNS, bit_of, column_of, own_bits, row_of
from cutlass import Float32, Int32

FEW = 4  # elements of eight queries that a thread has
Values = list[Float32]


@dataclass(frozen=True)
class Element:
    """Where a thread's elements are. kv, key: of each of its keys the position, and what its elements share.

    first_query: the thread's first.
    """

    kv: tuple[Any, Any]
    first_query: Any
    at: KeyAt
    key: tuple[Any, Any]

    def renewed(self) -> "Element":
        """The same values, known only from here on: or the compiler adds every query to them before the loop, and spills."""
        first = again(self.kv[0])
        kv = (first, first + EIGHT)
        key = tuple(tuple(again(value) for value in one) for one in self.key)
        return replace(self, kv=kv, first_query=again(self.first_query), key=key)

    def each(self, function: Callable[..., Any], index: int, score: Any) -> Any:
        """A function of the variant at one of the thread's elements."""
        row = row_of(index)
        return function(score, self.first_query + column_of(index), self.kv[row], self.at, self.key[row])


@dataclass(frozen=True)
class Weights:
    """Probabilities of a step. words: as products take them; factors: what dP - delta is multiplied by, the score's derivative
    among it, unless that is kept apart in `slopes`, since a learned tensor has a share of d(score) without it."""

    words: list[Int32]
    factors: Values
    slopes: Values | None


class RowNumbers:
    """Numbers of a thread's queries, the two of every eight, in the order of its elements.

    So many pairs are read ahead of the one that is taken: shared memory, which products read all the time, answers late.
    """

    def __init__(self, address: Any, count: int, ahead: int) -> None:
        """address: of the first; count: of the elements of the thread's two keys."""
        self.address, self.pairs, self.ahead = address, count // FEW, ahead
        self.read: list[Values] = []
        self._read_to(ahead)

    def _read_to(self, end: int) -> None:
        for at in range(len(self.read), min(end, self.pairs)):
            text = "ld.shared.v2.f32 {{$w0}, {$w1}}, [{$r0}];"
            self.read.append(ptx(text, Int32(self.address + at * (EIGHT * 4)), returns=[Float32] * 2))

    def few(self, first: int) -> Values:
        """Those of elements `first` and the next few: two queries for each key."""
        at = first // FEW
        self._read_to(at + 1 + self.ahead)
        return self.read[at] * 2


def weights_of(mods: BackwardMods, s: Values, element: Element, is_partial: bool, minus_lse: RowNumbers, kind: Any) -> Weights:
    """Probabilities, from the scores: exp2 less the rows' log-sum-exp (log2 units).

    A few at a time are scored, exponentiated and masked: scores, slopes and probabilities of all would not fit the registers.
    """
    visible = _visible(mods, element, len(s)) if is_partial else None
    words, factors, kept = [], [], []
    for first in range(0, len(s), FEW):
        few = range(first, first + FEW)
        scores, slopes = _scored(mods, [s[index] for index in few], element, first)
        p = _exponentials(mods, scores, minus_lse.few(first))
        if visible is not None:  # after: in a row whose log-sum-exp is NaN a score of -inf gives NaN
            p = [_masked(visible, index, one) for index, one in zip(few, p, strict=True)]
        words += f32.narrow(p, kind)
        factors += p if mods.learned else weighted(p, slopes)
        kept += slopes or []
    return Weights(words, factors, kept if mods.learned and kept else None)


def _scored(mods: BackwardMods, s: Values, element: Element, first: int) -> tuple[Values, Values | None]:
    """Finished scores before the mask, from number `first` on, and their slopes by q . k times the scale (None: all 1)."""
    if mods.is_folded:
        return s, None
    raws = scaled(mods, s, element)
    if mods.score is None:
        return raws, None
    pairs = [element.each(mods.score, first + index, raw) for index, raw in enumerate(raws)]
    slopes = None if pairs[0][1] is None else [Float32(slope) for _, slope in pairs]
    return [Float32(score) for score, _ in pairs], slopes


def scaled(mods: BackwardMods, s: Values, element: Element) -> Values:
    """Scores before the score statements, of what is q . k."""
    scale = Float32(mods.scale(element.at))
    return [f32.times(value, scale) for value in s]


def _visible(mods: BackwardMods, element: Element, count: int) -> list[tuple[Any, Any]]:
    """Words of the thread's queries that see each of its keys."""
    found = []
    for first in range(0, count * 2, WORD_COLUMNS):
        start = element.first_query + first
        with asking(own_bits(count * 2 - first)):
            beyond, words = keys_below(element.at.q_end, start), []
            for row in range(2):
                visible = beyond & all_keys(element.kv[row] < element.at.kv_end)
                if mods.mask is not None:
                    visible = visible & mods.mask(element.kv[row], start, element.at, element.key[row])
                words.append(visible)
        found.append((words[0], words[1]))
    return found


def _masked(visible: list[tuple[Any, Any]], index: int, probability: Float32) -> Float32:
    """0 where the query does not see the key, or either is beyond its sequence."""
    word, bit = divmod(bit_of(index), WORD)
    return f32.where_bit(visible[word][row_of(index)], bit, probability, f32.constant(0.0))


def _exponentials(mods: BackwardMods, s: Values, minus_lse: Values) -> Values:
    factor = Float32(mods.to_log2)
    return [f32.exp2(scalar.fused(value, factor, shift)) for value, shift in zip(s, minus_lse, strict=True)]


def weighted(values: Values, slopes: Values | None) -> Values:
    """Each times its slope; 0 where it is 0, whatever the slope."""
    if slopes is None:
        return values
    return [_unless_zero(value, f32.times(value, slope)) for value, slope in zip(values, slopes, strict=True)]


def score_gradients(factors: Values, dp: Values, minus_delta: RowNumbers, is_careful: bool) -> Values:
    """P (dP - delta). is_careful: 0 where P is 0, though dP may be anything there."""
    found = []
    for first in range(0, len(dp), FEW):
        few = range(first, first + FEW)
        for index, delta in zip(few, minus_delta.few(first), strict=True):
            value = f32.times(factors[index], scalar.plus(dp[index], delta))
            found.append(_unless_zero(factors[index], value) if is_careful else value)
    return found


def _unless_zero(probability: Float32, value: Float32) -> Float32:
    return Float32(cutlass.select_(probability == Float32(0.0), Float32(0.0), value))
