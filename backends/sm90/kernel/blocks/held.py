"""What a thread of a multiplying warpgroup is, and what it keeps in registers from one step to the next."""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods
from attnspec.backends.cute.kernel.work import At
from attnspec.backends.sm90.kernel.blocks.registers import array, fill, keep, values
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS, Plan
from cutlass import Float32, Int32

GROUP_ROWS = 64
WARP_ROWS = 16
WARP = 32


@dataclass(frozen=True)
class Place:
    """group: which of the warpgroups; thread: in it; lane: in the warp; first_row: the warp's first row of the tile; rows: the
    thread's own two, in the tile."""

    group: Any
    thread: Any
    lane: Any
    first_row: Any
    rows: tuple[Any, Any]


def find_place(plan: Plan) -> Place:
    """This thread's."""
    group = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // (GROUP_THREADS // WARP)
    thread = cute.arch.thread_idx()[0] % GROUP_THREADS
    lane = thread % WARP
    first = group * GROUP_ROWS + thread // WARP * WARP_ROWS
    row = first + lane // 4
    return Place(group, thread, lane, first, (row, row + WARP_ROWS // 2))


def own_rows(place: Place, at: At) -> tuple[Int32, Int32]:
    """Global positions of the thread's rows; of one that does not exist, the last that does."""
    first, second = (Int32(cutlass.min(at.q_first + row, at.q_last)) for row in place.rows)
    return first, second


@dataclass(frozen=True)
class Held:
    """o: this thread's part of the output, not yet divided; p: of the probabilities, two to a word.

    maxima, sums: of its two rows, the sums of its own keys alone.
    """

    o: Any
    p: Any
    maxima: Any
    sums: Any


def clear(held: Held, mods: Mods) -> None:
    """What is held as it is before a tile's first step."""
    fill(held.o, 0.0)
    fill(held.sums, 0.0)
    least = -Float32.inf if mods.midpoint is None else mods.midpoint
    keep(held.maxima, [Float32(least)] * 2)


def hold(plan: Plan) -> Held:
    """Room for it."""
    p = array(plan.score_count // 2, Int32)
    fill(p, 0)
    return Held(array(plan.output_count), p, array(2), array(2))


def rows_of(held: Held) -> tuple[list[Float32], list[Float32]]:
    """Sums and maxima of the thread's rows."""
    return values(held.sums), values(held.maxima)
