"""One step of the backward on a thread's part of a tile: one key, half of the tile's queries, all in registers.

P = exp2(S - LSE), dS = P (dP - delta), times the score's derivative. Log-sum-exp and delta are the query's, so a thread reads as
many of them as it has elements, from shared memory, where all threads of a warp read the same word.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods
from attnspec.backends.cute.kernel.blocks import f32, pair
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, all_keys, keys_below
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.query_walk import KeyAt
from attnspec.backends.cute.kernel.work import again
from attnspec.backends.sm100.kernel.backward_plan import RUN, BackwardPlan
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from cutlass import Float32, Int32, Uint32

CHUNK = WORD  # columns a tensor memory instruction moves
PIECE = 8  # 16-bit values of 16 bytes
LOOP_CHUNK = 16  # columns at hand at a time where elements load something of their own
Column = list[Float32]


@dataclass(frozen=True)
class Element:
    """Where a thread's elements are: its key, its first query, the place of the key tile, and what the key's elements share."""

    kv: Any
    first_query: Any
    at: KeyAt
    key: Any


def moved(element: Element, queries: Any) -> Element:
    """The same key, some queries on."""
    return Element(element.kv, element.first_query + queries, element.at, element.key)


def renewed(element: Element) -> Element:
    """The same values, known only from here on: or the compiler adds each query of a tile to them before the loop, and spills."""
    return Element(again(element.kv), again(element.first_query), element.at, tuple(again(value) for value in element.key))


def load_column(address: Any, count: int) -> Column:
    """`count` f32 values of this thread's lane of tensor memory, complete when this returns."""
    width = min(count, CHUNK)
    values = [value for first in range(0, count, width) for value in tensor_memory.load(address + first, width)]
    tensor_memory.wait_loads()
    return values


def load_rows(address: Any, count: int) -> Column:
    """`count` f32 values of shared memory, the same for all threads of a warp."""
    values: Column = []
    for first in range(0, count, 4):
        text = "ld.shared.v4.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];"
        values += ptx(text, Int32(address + first * 4), returns=[Float32] * 4)
    return values


def scaled(mods: BackwardMods, s: Column, element: Element) -> Column:
    """q . k times the softmax scale."""
    scale = mods.scale(element.at)
    return [value * scale for value in s]


def scored(mods: BackwardMods, s: Column, element: Element) -> tuple[Column, Column | None]:
    """Finished scores before the mask, and their slopes by q . k times the scale (None: all 1)."""
    if mods.is_folded:
        return s, None
    raws = scaled(mods, s, element)
    if mods.score is None:
        return raws, None
    pairs = [mods.score(raw, element.first_query + index, element.kv, element.at, element.key) for index, raw in enumerate(raws)]
    found = [Float32(score) for score, _ in pairs]
    return found, None if pairs[0][1] is None else [Float32(slope) for _, slope in pairs]


def load_part(plan: BackwardPlan, address: Any) -> Column:
    """All of a thread's columns of S, from its first."""
    pieces = [tensor_memory.load(address + plan.query(first), CHUNK) for first in range(0, plan.half, CHUNK)]
    tensor_memory.wait_loads()
    return [value for piece in pieces for value in piece]


def visible_words(plan: BackwardPlan, mods: BackwardMods, element: Element, count: int) -> list[Uint32]:
    """A word for each 32 of a thread's queries: which of them see its key, both being inside their sequences."""
    inside = all_keys(element.kv < element.at.kv_end)
    words = []
    for first in range(0, count, WORD):
        start = element.first_query + plan.query(first)
        visible = keys_below(element.at.q_end, start) & inside
        if mods.mask is not None:
            visible = visible & mods.mask(element.kv, start, element.at, element.key)
        # Through the warp, so that a word is whole before what follows: in pieces it wants a register an element.
        words.append(ptx("shfl.sync.bfly.b32 {$w0}, {$r0}, 0, 31, 0xffffffff;", Uint32(visible), returns=[Uint32]))
    return words


def masked(values: Column, words: list[Uint32] | None, first: int, hidden: float) -> Column:
    """Another value where the key is not seen: 0 for a probability; -inf for a score, which has none in a row whose log-sum-exp
    is NaN. words: of `visible_words`, None where all see it; first: the first element's number."""
    if words is None:
        return values
    other = f32.constant(hidden)
    return [f32.where_bit(words[at // WORD], at % WORD, value, other) for at, value in enumerate(values, first)]


@cute.jit
def rewrite(plan: BackwardPlan, mods: BackwardMods, address: Int32, element: Element, is_partial: cutlass.Constexpr):
    """Finish the scores in tensor memory, a chunk at a time; mask them only where the mask reads something of every element.

    Where an element needs a load of its own: with all of a thread's part at hand the compiler starts all its loads at once, and
    spills.
    """
    is_by_words = is_partial and mods.mask_reads
    count = CHUNK if is_by_words else LOOP_CHUNK
    for first in cutlass.range(0, plan.half, count, unroll=1):
        place = plan.query(first)
        own = moved(element, place)
        words = visible_words(plan, mods, own, count) if cutlass.const_expr(is_by_words) else None
        s, _ = scored(mods, load_column(address + place, count), own)
        tensor_memory.store(address + place, f32.words(masked(s, words, 0, -float("inf"))))
    tensor_memory.wait_stores()


def probabilities(mods: BackwardMods, s: Column, minus_lse: Column) -> Column:
    """exp2 of the finished scores less the rows' log-sum-exp (log2 units)."""
    factor, found = f32.twice(mods.to_log2), []
    for index in range(0, len(s), 2):
        shift = f32.pair(minus_lse[index], minus_lse[index + 1])
        low, high = f32.apart(f32.multiply_add(f32.pair(s[index], s[index + 1]), factor, shift))
        found += [f32.exp2(low), f32.exp2(high)]
    return found


def weighted(values: Column, slopes: Column | None) -> Column:
    """P, or d(score), times the slope; 0 where it is 0, whatever the slope."""
    if slopes is None:
        return values
    return [_unless_zero(value, value * slope) for value, slope in zip(values, slopes, strict=True)]


def score_gradients(p: Column, dp: Column, minus_delta: Column, is_careful: bool) -> Column:
    """P (dP - delta). is_careful: 0 where P is 0, though dP may be anything there."""
    found: Column = []
    for index in range(0, len(p), 2):
        difference = f32.add(f32.pair(dp[index], dp[index + 1]), f32.pair(minus_delta[index], minus_delta[index + 1]))
        found += f32.apart(f32.multiply(f32.pair(p[index], p[index + 1]), difference))
    if not is_careful:
        return found
    return [_unless_zero(probability, value) for probability, value in zip(p, found, strict=True)]


def _unless_zero(probability: Float32, value: Float32) -> Float32:
    return Float32(cutlass.select_(probability == Float32(0.0), Float32(0.0), value))


def share(plan: BackwardPlan, address: Any, row: Any, words: list[Int32], start: Any = 0, first: Any = 0) -> None:
    """Values of dS, 16 bits each, to a thread's 128-byte row of shared memory, swizzled as the tensor core reads it.

    start: the 16-byte piece of the row that the thread's queries begin with; first: number of the first query at hand. In a pair
    the row is in the CTA that makes dQ of the query.
    """
    per_row = plan.row_bytes // 16
    address, row = again(address), again(row)  # or the places of all pieces are found before the loop, and spill
    for at in range(len(words) // 4):
        four = words[4 * at : 4 * at + 4]
        if plan.ctas == 1:
            place = address + ((row % per_row) ^ (start + first // PIECE + at)) * 16
            ptx("st.shared.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};", place, *four)
        else:
            number = first + at * PIECE
            place = address + ((row % per_row) ^ (start + number % RUN // PIECE)) * 16
            pair.put(number // RUN, place, four)
