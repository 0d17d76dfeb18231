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
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT, OWN, column_of, row_of
from cutlass import Float32, Int32

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
        kv = (again(self.kv[0]), again(self.kv[1]))
        key = tuple(tuple(again(value) for value in one) for one in self.key)
        return replace(self, kv=kv, first_query=again(self.first_query), key=key)

    def each(self, function: Callable[..., Any], index: int, score: Any) -> Any:
        """A function of the variant at one of the thread's elements."""
        row = row_of(index)
        return function(score, self.first_query + column_of(index), self.kv[row], self.at, self.key[row])


def load_rows(address: Any, count: int) -> Values:
    """Numbers of a thread's queries, from its first on: the two of every eight, for `count` elements of its two keys."""
    pairs: Values = []
    for first in range(count // 4):
        text = "ld.shared.v2.f32 {{$w0}, {$w1}}, [{$r0}];"
        pairs += ptx(text, Int32(address + first * (EIGHT * 4)), returns=[Float32] * 2)
    return [pairs[index // 4 * 2 + index % 2] for index in range(count)]


def scored(mods: BackwardMods, s: Values, element: Element) -> tuple[Values, Values | None]:
    """Finished scores before the mask, and their slopes by q . k times the scale (None: all 1)."""
    if mods.is_folded:
        return s, None
    scale = Float32(mods.scale(element.at))
    raws = [f32.times(value, scale) for value in s]
    if mods.score is None:
        return raws, None
    pairs = [element.each(mods.score, index, raw) for index, raw in enumerate(raws)]
    slopes = None if pairs[0][1] is None else [Float32(slope) for _, slope in pairs]
    return [Float32(score) for score, _ in pairs], slopes


def masked(mods: BackwardMods, s: Values, element: Element) -> Values:
    """-inf where the query does not see the key, or either is beyond its sequence."""
    hidden, found = f32.constant(-float("inf")), list(s)
    for first in range(0, len(s) * 2, WORD):
        start = element.first_query + first
        beyond = keys_below(element.at.q_end, start)
        for row in range(2):
            visible = beyond & all_keys(element.kv[row] < element.at.kv_end)
            if mods.mask is not None:
                with asking(OWN):
                    visible = visible & mods.mask(element.kv[row], start, element.at, element.key[row])
            for index in range(first // 2, min((first + WORD) // 2, len(s))):
                if row_of(index) == row:
                    found[index] = f32.where_bit(visible, column_of(index) - first, found[index], hidden)
    return found


def probabilities(mods: BackwardMods, s: Values, minus_lse: Values) -> Values:
    """exp2 of the finished scores less the rows' log-sum-exp (log2 units)."""
    factor = Float32(mods.to_log2)
    return [f32.exp2(scalar.fused(value, factor, shift)) for value, shift in zip(s, minus_lse, strict=True)]


def weighted(values: Values, slopes: Values | None) -> Values:
    """P times the slope; 0 where P is 0, whatever the slope."""
    if slopes is None:
        return values
    return [_unless_zero(value, f32.times(value, slope)) for value, slope in zip(values, slopes, strict=True)]


def score_gradients(p: Values, dp: Values, minus_delta: Values, is_careful: bool) -> Values:
    """P (dP - delta). is_careful: 0 where P is 0, though dP may be anything there."""
    found = [f32.times(weight, scalar.plus(one, delta)) for weight, one, delta in zip(p, dp, minus_delta, strict=True)]
    return [_unless_zero(weight, value) for weight, value in zip(p, found, strict=True)] if is_careful else found


def _unless_zero(probability: Float32, value: Float32) -> Float32:
    return Float32(cutlass.select_(probability == Float32(0.0), Float32(0.0), value))
