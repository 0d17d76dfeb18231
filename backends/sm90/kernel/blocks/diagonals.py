"""Sums along the diagonals of what a warp holds of a product: 16 keys, all queries of a step.

Lane 4 r + t has the keys r and r + 8 and of every eight queries 2 t and 2 t + 1. The sum of distance d = query - key, both
counted from the warp's first, comes to lane t of a group of four as number (j, c) with d = 8 j + 2 t + c: first a thread adds
what its two keys have of one distance, then odd rows go to even ones, then groups of four turn until a distance is in one place
in all of them, and then they are added up, each group ending with a quarter of the numbers.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import LearnedRead
from attnspec.backends.cute.kernel.blocks.gradient_sums import add_all
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.strips import WORD_BYTES, Strips
from attnspec.backends.cute.kernel.work import again
from attnspec.backends.sm90.kernel.blocks import scalar
from attnspec.backends.sm90.kernel.blocks.gradient_step import Element, Values
from attnspec.backends.sm90.kernel.blocks.halving import share_out
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT, column_of
from cutlass import Float32, Int32

LEAST = -2  # of j
OTHERS = (8, 16)  # bits of a lane's number by which even rows differ
Numbers = dict[tuple[int, int], Float32]


def add_diagonals(tensor: Any, read: LearnedRead, shares: Values, element: Element, count: int) -> None:
    """Add the sums of a step to a learned tensor's gradient, which is read by distance; of `count` shares at a time."""
    for begin in range(0, len(shares), count):
        own, first = _sums(shares[begin : begin + count])
        is_even = (cute.arch.lane_idx() & 4) == 0
        values = [Float32(cutlass.select_(is_even, value, Float32(0.0))) for value in own]
        # Its distance is all that the address knows of an element.
        key = element.kv[0] - (again(cute.arch.lane_idx()) >> 2)
        query = element.first_query + (column_of(begin) + LEAST * EIGHT)
        places = [read.indices(query + _number(first + at), key, element.at, element.key[0]) for at in range(len(own))]
        add_all(tensor, tuple(places), tuple(values))


def stage_diagonals(strips: Strips, address: Any, shares: Values) -> None:
    """The same to shared memory, for one warp to add up. address: of the warp's first strip."""
    count = len(shares) // strips.parts
    for part in range(strips.parts):
        own, first = _sums(shares[part * count : (part + 1) * count])
        lane = cute.arch.lane_idx()
        start = address + strips.offset(0, 0, part) + (lane & 3) * (2 * WORD_BYTES)
        # Numbers of even places, and those of odd ones, are as far apart for every lane: two addresses do for all.
        starts = [Int32(start + (_number(first + odd) - _number(odd)) * WORD_BYTES) for odd in range(2)]
        for at, value in enumerate(own):
            store = f"@p st.shared.f32 [{{$r0}}+{_number(at) * WORD_BYTES}], {{$r1}};"
            ptx(f"{{.reg .pred p; setp.eq.b32 p, {{$r2}}, 0; {store}}}", starts[at % 2], value, lane & 4)


def _sums(shares: Values) -> tuple[Values, Int32]:
    """Sums that this lane has in the end, and which of all in order its first is. Those of lanes of odd rows are for nobody."""
    lane = cute.arch.lane_idx()
    t = lane & 3
    numbers = _turned(_of_even_rows(_of_thread(shares), t), lane >> 3, t)
    return share_out([numbers[place] for place in sorted(numbers)], OTHERS)


def _number(at: Any) -> Any:
    """8 (j - LEAST) + c of a number by its place in order."""
    return at * (EIGHT // 2) - (at & 1) * (EIGHT // 2 - 1)


def _of_thread(shares: Values) -> Numbers:
    """A thread's numbers by (j, c), of distance 8 j + 2 t + c - r."""
    eights = len(shares) // 4
    numbers: Numbers = {}
    for j in range(-1, eights):
        for c in range(2):
            of_first = shares[4 * j + c] if j >= 0 else None
            of_second = shares[4 * (j + 1) + 2 + c] if j + 1 < eights else None
            parts = [part for part in (of_first, of_second) if part is not None]
            numbers[j, c] = parts[0] if len(parts) == 1 else scalar.plus(*parts)
    return numbers


def _at(numbers: Numbers, j: int, c: int) -> Float32:
    return numbers.get((j, c), Float32(0.0))


def _shuffled(value: Float32, source: Any) -> Float32:
    """The value that another lane has."""
    return ptx("shfl.sync.idx.b32 {$w0}, {$r0}, {$r1}, 31, 0xffffffff;", value, Int32(source), returns=[Float32])


def _of_even_rows(numbers: Numbers, t: Any) -> Numbers:
    """Numbers of even rows r = 2 a with those of r + 1 added, of distance 8 j + 2 (t - a) + c."""
    lane = cute.arch.lane_idx()
    below = (lane + 4) & 31
    beside = (below & 28) + ((t + 1) & 3)
    eights = max(j for j, _ in numbers) + 1
    found: Numbers = {}
    for j in range(LEAST, eights):
        found[j, 0] = scalar.plus(_at(numbers, j, 0), _shuffled(_at(numbers, j, 1), below))
        sent = Float32(cutlass.select_(t == 0, _at(numbers, j + 1, 0), _at(numbers, j, 0)))
        found[j, 1] = scalar.plus(_at(numbers, j, 1), _shuffled(sent, beside))
    return found


def _turned(numbers: Numbers, a: Any, t: Any) -> Numbers:
    """The same of distance 8 j + 2 t + c in every row."""
    lane = cute.arch.lane_idx()
    source = (lane & 28) + ((t + a) & 3)
    found: Numbers = {}
    for j, c in numbers:
        sent = Float32(cutlass.select_(t < a, _at(numbers, j + 1, c), _at(numbers, j, c)))
        found[j, c] = _shuffled(sent, source)
    return found
