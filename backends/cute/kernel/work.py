"""What a CTA works on: sizes and sequences of a call, its share of the work tiles, and which key tiles one visits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.cut import Cut, blocks, own_row
from attnspec.backends.cute.kernel.plan import Widths
from attnspec.backends.cute.kernel.rounds import Rounds
from cutlass import Float32, Int32, Uint32

NUMBER = 0x7FFFFFFF  # bits of a work tile's number; the sign tells that it is done a second time
AGAIN = -0x80000000
LAST_BARRIER = 15  # of the 16 named ones: others count up from 0
MOST_HEADS = 1024  # more than any L2 holds, few enough that tile numbers stay in 32 bits


@dataclass(frozen=True)
class Sizes:
    """Sizes as the file's expressions name them, Int32 each; len_q, len_kv: whole lengths, of the sequence at hand if packed."""

    batch: Any
    heads: Any
    kv_heads: Any
    len_q: Any
    len_kv: Any


@dataclass(frozen=True)
class Sequences:
    """How sequences lie in a call's tensors, by functions of `dense` or `packed`, and `facts` that those understand.

    blocks(rows, facts, batch): work tiles of so many rows along the query axis. lanes(sizes): how many such axes there are.
    find(rows, sizes, facts, lane, block): the sequence of a block and the block's first row in it.
    again(facts): the same, of a role's own.
    """

    facts: Any
    blocks: Callable[..., Any]
    lanes: Callable[..., Any]
    find: Callable[..., Any]
    again: Callable[..., Any]


@dataclass(frozen=True)
class Sequence:
    """One sequence of a call. sizes: with its own whole lengths; rows, keys: how many are at hand, the first of them at the
    global positions q_first, kv_first.

    row_shift, row_axis: TMA coordinates of its first row (what is added to the row, and the outermost one); the same for keys.
    lse_row, lse_axis: where its first row is in the log-sum-exps; key_given, key_axis_given: where its first key is in the call's
    own tensors.
    """

    sizes: Sizes
    b: Any
    rows: Any
    keys: Any
    q_first: Any
    kv_first: Any
    row_shift: Any
    row_axis: Any
    key_shift: Any
    key_axis: Any
    lse_row: Any
    lse_axis: Any
    key_given: Any
    key_axis_given: Any


@dataclass(frozen=True)
class Work:
    """A CTA's share of the work tiles. first: its first place; ctas: that share them out, see `rounds`. tensors: the variant's
    own, by name. cut: None where all rows of a work tile are of one head, and it visits all their keys. rank: of this CTA among
    those that share a work tile.
    """

    sizes: Sizes
    first: Any
    ctas: Any
    rounds: Rounds
    tensors: Any = None
    sequences: Any = None
    cut: Cut | None = None
    rank: Any = 0

    @property
    def count(self) -> Any:
        """Places of all work tiles."""
        return self.rounds.count


@dataclass(frozen=True)
class At:
    """Where a tile is. row: its first row, existing or not, counted from the sequence's first at hand.

    q_first, q_last: global positions of its first and last row that exist (inclusive); kv_first, kv_end: of the keys at hand
    [first, end). h: its first head. part: which of the work tiles of these rows.
    Of a thread's own row: h is its head; place: the row, from the tile's first; end: of the rows that exist, 0 where the head
    is not there.
    """

    sequence: Sequence
    tensors: Any
    h: Any
    hkv: Any
    row: Any
    q_first: Any
    q_last: Any
    part: Any = 0
    parts: Any = 1
    place: Any = None
    end: Any = None

    @property
    def sizes(self) -> Sizes:
        """Sizes as expressions name them."""
        return self.sequence.sizes

    @property
    def b(self) -> Any:
        """Number of the sequence."""
        return self.sequence.b

    @property
    def kv_first(self) -> Any:
        """Global position of the first key at hand."""
        return self.sequence.kv_first

    @property
    def kv_end(self) -> Any:
        """Global position after the last key at hand."""
        return self.sequence.kv_first + self.sequence.keys


@dataclass(frozen=True)
class Steps:
    """Key tiles that a work tile visits, as disjoint ascending runs: starts and lengths in tiles.

    trips: how many steps, from the tile that is `first` on: all, where one work tile has them all. tiles: how many key tiles,
    where a step has several (the last step may have fewer); None where it has one.
    """

    trips: Any
    starts: tuple[Any, ...]
    lengths: tuple[Any, ...]
    first: Any = 0
    tiles: Any = None

    @property
    def key_tiles(self) -> Any:
        """How many key tiles."""
        return self.trips if self.tiles is None else self.tiles


def own_copy(work: Work) -> Work:
    """The same numbers, through instructions that the compiler may not merge with another role's.

    Left to itself it computes what all roles need (divisions, ranges) before they part, and spills it on the way.
    """
    rounds = Rounds(*map(again, (work.rounds.heads, work.rounds.places, work.rounds.count)))
    return Work(
        own_sizes(work.sizes), again(work.first), again(work.ctas), rounds, work.tensors, work.sequences, work.cut, work.rank
    )


def own_sizes(sizes: Sizes) -> Sizes:
    """Sizes in registers of their own."""
    return Sizes(*map(again, (sizes.batch, sizes.heads, sizes.kv_heads, sizes.len_q, sizes.len_kv)))


def again(value: Any) -> Any:
    """The same number, of which the compiler knows nothing: what is computed from it cannot move to before this point."""
    kind = Float32 if isinstance(value, Float32) else Int32
    return ptx("mov.b32 {$w0}, {$r0};", kind(value), returns=[kind])


def clip(sequence: Sequence, row: Any, rows: Any) -> tuple[Any, Any]:
    """Global positions of the first and the last of so many rows that exist."""
    last = cutlass.min(row + (rows - 1), sequence.rows - 1)
    return sequence.q_first + cutlass.min(row, last), sequence.q_first + last


def own_cut(cut: Cut | None) -> Cut | None:
    """The cut, with what the call decides read anew."""
    if cut is None:
        return None
    return Cut(cut.row_bits if cut.row_bits is None else again(cut.row_bits), again(cut.parts))


def query_tile(plan: Widths, work: Work, at: At, lane: Any, thread: Any = 0) -> At:
    """Place of one query tile of a work tile, and in it of a thread's own row."""
    sequence, cut = at.sequence, own_cut(work.cut)
    own = own_row(plan, cut, number_of(plan, work, lane), thread)
    row, h, end = at.row + own.first, at.h, sequence.rows
    if cut is not None and cut.row_bits is not None:
        last = (at.hkv + 1) * (at.sizes.heads // at.sizes.kv_heads) - 1
        end = Int32(cutlass.select_(h + own.head <= last, end, Int32(0)))
        h = cutlass.min(h + own.head, last)
    return At(sequence, work.tensors, h, at.hkv, row, *clip(sequence, row, own.span), at.part, at.parts, own.place, end)


def number_of(plan: Widths, work: Work, lane: Any) -> Any:
    """Number of a query tile in its work tile: CTAs that share one take its query tiles in turn."""
    return lane if plan.ctas == 1 else lane * plan.ctas + work.rank


def visit(plan: Widths, at: At, ranges: tuple[tuple[Any, Any], ...]) -> Steps:
    """Key tiles that meet a range [first, last) of keys; the ranges may overlap, be empty, or leave the keys at hand.

    Tiles are counted from the first key at hand.
    """
    first = at.kv_first
    whole = runs(plan.tile_kv, at.sequence.keys, tuple((low - first, high - first) for low, high in ranges))
    if isinstance(at.parts, int):
        return _in_steps(plan, whole)
    start, end = _share_of(whole.trips, at.part, at.parts)
    return _in_steps(plan, Steps(end - start, whole.starts, whole.lengths, start))


def _in_steps(plan: Widths, run: Steps) -> Steps:
    """The same tiles, in steps of as many as the plan says."""
    if plan.key_tiles == 1:
        return run
    return Steps(blocks(run.trips, plan.key_tiles), run.starts, run.lengths, run.first, run.trips)


@cute.jit
def _share_of(trips: Int32, part: Int32, parts: Int32):
    """First step of a part, and the first after it: parts differ by a step at most, and may be empty."""
    start, end = Int32(0), trips
    if parts > 1:
        start = Int32(Uint32(trips * part) // Uint32(parts))
        end = Int32(Uint32(trips * (part + 1)) // Uint32(parts))
    return start, end


def runs(tile: int, length: Any, ranges: tuple[tuple[Any, Any], ...]) -> Steps:
    """Tiles of an axis of that length that meet a range [first, last) of its positions."""
    runs = [_tiles(cutlass.max(first, Int32(0)), cutlass.min(last, length), tile) for first, last in ranges]
    for end in range(len(runs) - 1, 0, -1):
        for at in range(end):
            runs[at], runs[at + 1] = _ordered(runs[at], runs[at + 1])
    starts: list[Any] = []
    lengths: list[Any] = []
    reached: Any = Int32(0)
    for first, last in runs:
        start = cutlass.max(first, reached)
        starts.append(start)
        lengths.append(cutlass.max(last - start, Int32(0)))
        reached = cutlass.max(reached, last)
    trips: Any = Int32(0)
    for length in lengths:
        trips = trips + length
    return Steps(trips, tuple(starts), tuple(lengths))


def _tiles(first: Any, last: Any, tile: int) -> tuple[Any, Any]:
    """Tiles [first, last) that an element range meets; an empty range inside a tile meets none."""
    return first // tile, Int32(cutlass.select_(first < last, (last + (tile - 1)) // tile, Int32(0)))


def _ordered(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    swap = left[0] > right[0]
    pick = cutlass.select_
    low = (Int32(pick(swap, right[0], left[0])), Int32(pick(swap, right[1], left[1])))
    high = (Int32(pick(swap, left[0], right[0])), Int32(pick(swap, left[1], right[1])))
    return low, high


def key_tile(steps: Steps, step: Any) -> Any:
    """Index of the `step`-th key tile: of a step, where a step has one."""
    step = step + steps.first
    tile: Any = steps.starts[0] + step
    passed: Any = steps.lengths[0]
    for start, length in zip(steps.starts[1:], steps.lengths[1:], strict=True):
        tile = Int32(cutlass.select_(step >= passed, start + (step - passed), tile))
        passed = passed + length
    return tile


def meets(plan: Widths, at: At, ranges: tuple[tuple[Any, Any], ...], first_key: Any) -> Any:
    """Whether a key tile has a masked element: it meets a range [first, last), or reaches beyond the keys at hand."""
    return touches(plan.tile_kv, at.kv_end, ranges, first_key)


def touches(tile: int, length: Any, ranges: tuple[tuple[Any, Any], ...], start: Any) -> Any:
    """Whether a tile from `start` meets a range, or reaches beyond the length of its axis."""
    end = start + tile
    found: Any = end > length
    for first, last in ranges:
        found = found | (cutlass.max(first, start) < cutlass.min(last, end))
    return found
