"""Which key tile a CTA does next, where it lies, and which query tiles of which heads it visits: one answer for every role."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods
from attnspec.backends.cute.kernel.backward_plan import BackwardWidths
from attnspec.backends.cute.kernel.blocks.seeking import Places, by_warp, seek_by_lane, seek_by_warp, told
from attnspec.backends.cute.kernel.packed import slot_of
from attnspec.backends.cute.kernel.plan import Widths
from attnspec.backends.cute.kernel.rounds import deal, following_place, order_of
from attnspec.backends.cute.kernel.work import (
    MOST_HEADS,
    Sequence,
    Sequences,
    Sizes,
    Steps,
    Work,
    again,
    own_sizes,
    runs,
    touches,
)
from cutlass import Int32, Int64, Uint32

Found = TypeVar("Found")
# Key heads that calls with an order have under way: some four of 132 CTAs, or of 148, then read a head's rows at a time.
IN_TURNS = 32


@dataclass(frozen=True)
class KeySequences:
    """How sequences lie in a call's tensors, for one who walks key tiles.

    turned: sequences by key blocks, whose rows are keys and keys rows. blocks: query tiles of an axis, see `row_tile`.
    axis(plan, sequence): the axis of a sequence's query tiles, and the number of its first there.
    """

    turned: Sequences
    blocks: Any
    axis: Callable[..., Any]


def dense_axis(plan: Widths, sequence: Sequence) -> tuple[Any, Any]:
    """Every sequence has query tiles of its own."""
    return sequence.b, Int32(0)


def packed_axis(plan: Widths, sequence: Sequence) -> tuple[Any, Any]:
    """One axis for all sequences."""
    return Int32(0), slot_of(plan.tile_q, sequence.lse_row, sequence.b)


@dataclass(frozen=True)
class KeyAt:
    """Where a key tile is. h: a query head; key: the tile's first key, counted from the sequence's first at hand; of CTAs that
    share a work tile, that of this one.

    part: which of the times that it is done, for some columns of the head dimensions each.
    kv_first, kv_last: global positions of the work tile's first and last key that exist (inclusive); kv_end, q_end: those after
    the last key and row at hand. axis, block: of the sequence's query tiles, see `KeySequences`.
    """

    sequence: Sequence
    sizes: Sizes
    tensors: Any
    b: Any
    h: Any
    hkv: Any
    key: Any
    kv_first: Any
    kv_last: Any
    kv_end: Any
    q_end: Any
    axis: Any
    block: Any
    part: Any = 0


@dataclass(frozen=True)
class Seen:
    """run: the query tiles that a key tile visits. clear: a range of queries that see all of it, None where that is found in
    every step. places: in sorted tensors, that were found on the way."""

    run: Steps
    clear: tuple[Any, Any] | None
    places: Places


def of_head(at: KeyAt, h: Any) -> KeyAt:
    """The same tile, met by another query head of its group."""
    positions = (at.key, at.kv_first, at.kv_last, at.kv_end, at.q_end, at.axis, at.block)
    return KeyAt(at.sequence, at.sizes, at.tensors, at.b, h, at.hkv, *positions, at.part)


def moved_to(plan: Widths, at: KeyAt, key: Any) -> KeyAt:
    """Another work tile of the same sequence. key: its first, counted from the first at hand."""
    sequence = at.sequence
    last = cutlass.min(key + (plan.work_keys - 1), sequence.keys - 1)
    first, last = (sequence.kv_first + place for place in (cutlass.min(key, last), last))
    ends = (at.kv_end, at.q_end, at.axis, at.block)
    return KeyAt(sequence, at.sizes, at.tensors, at.b, at.h, at.hkv, key, first, last, *ends, at.part)


def renewed(at: KeyAt) -> KeyAt:
    """The same, of which the compiler knows nothing: what is computed from it is not held from before a loop."""
    ends = (again(at.kv_first), again(at.kv_last), at.kv_end, at.q_end, at.axis, at.block)
    return KeyAt(at.sequence, own_sizes(at.sizes), at.tensors, at.b, at.h, at.hkv, at.key, *ends, at.part)


def survey(plan: Widths, mods: BackwardMods, at: KeyAt, kv: tuple[Any, ...]) -> "Seen":
    """What one head's queries see of the key tile, found by the warp, one for all lanes; in a pair, whose roles have no register
    to spare for that, by each lane. kv: positions of the thread's keys, for `keys_of`."""
    seek = seek_by_warp if plan.ctas == 1 else seek_by_lane
    make = lambda: (walk_of(plan, mods, at), _clear_queries(mods, at), [mods.key(one, at) for one in kv])  # noqa: E731
    (run, clear, _), places = seek(make)
    return Seen(run, clear, places)


def survey_once(plan: Widths, mods: BackwardMods, at: KeyAt, kv: tuple[Any, ...]) -> "Seen | None":
    """The same for all heads of a group, where finding it reads memory and names no head; else None, for each to find its own."""
    return survey(plan, mods, at, kv) if mods.reads_once else None


def keys_of(mods: BackwardMods, at: KeyAt, kv: tuple[Any, ...], seen: "Seen") -> tuple[Any, ...]:
    """What the elements of each of a thread's keys share."""
    return told(seen.places, lambda: tuple(mods.key(one, at) for one in kv))


def _clear_queries(mods: BackwardMods, at: KeyAt) -> tuple[Any, Any] | None:
    """A range of queries that all see the key tile, where finding it reads memory: what is left of them, the longer part where a
    range in which some are hidden lies within.

    None where it does not read: a step makes those ranges anew, in a few instructions, and no registers keep them.
    """
    if not mods.hidden_reads:
        return None
    low, high = Int32(0), Int32(at.q_end)
    for first, last in mods.hidden(at):
        before, after = cutlass.max(cutlass.min(first, high), low), cutlass.min(cutlass.max(last, low), high)
        is_before = (first >= last) | (before - low >= high - after)
        end = cutlass.select_(first >= last, high, before)
        low, high = Int32(cutlass.select_(is_before, low, after)), Int32(cutlass.select_(is_before, end, high))
    return low, high


def is_masked(plan: Widths, mods: BackwardMods, at: KeyAt, clear: tuple[Any, Any] | None, query: Any) -> Any:
    """Whether the query tile from `query` may have hidden elements, or reaches beyond its sequence."""
    if clear is None:
        return touches(plan.tile_q, at.q_end, mods.hidden(renewed(at)), query)
    return (query < clear[0]) | (query + plan.tile_q > clear[1])


def group(sizes: Sizes) -> Any:
    """Query heads that share a key head."""
    return sizes.heads // sizes.kv_heads


def turn(sizes: Sizes) -> Sizes:
    """Sizes with the lengths exchanged."""
    return Sizes(sizes.batch, sizes.heads, sizes.kv_heads, sizes.len_kv, sizes.len_q)


def _turn_back(found: Sequence) -> Sequence:
    """A sequence found among turned ones, rows being rows again."""
    positions = (found.keys, found.rows, found.kv_first, found.q_first)
    coordinates = (found.key_shift, found.key_axis, found.row_shift, found.row_axis)
    places = (found.key_given, found.key_axis_given, found.lse_row, found.lse_axis)
    return Sequence(turn(found.sizes), found.b, *positions, *coordinates, *places)


def deal_key_tiles(plan: BackwardWidths, sizes: Sizes, turned: Sequences, rows: Any, processors: Any = None) -> Any:
    """CTAs of a call, and in which order they take its work tiles. Returns numbers: of CTAs, and those of `Rounds`.

    Where dQ is added up in order no CTA may take a tile before one that has a lower place: every tile waits for one there. So
    rounds follow one another without a gap, of unequal tiles those of so many heads that the tiles of a round are alike. rows:
    at hand, of one head. processors: for a CTA, or a pair, each; None: a CTA a tile, which the chip hands out in this order.
    """
    heads = sizes.kv_heads * turned.lanes(sizes)
    tiles = turned.blocks(plan.work_keys, turned.facts, sizes.batch) * plan.parts
    ctas = cutlass.max(heads * tiles if processors is None else cutlass.min(heads * tiles, processors), 1)
    fit = _fit(plan, sizes, rows)
    if plan.deterministic:
        mixed = Int32(IN_TURNS) if plan.longest_first else fit
        return ctas, (mixed, mixed * tiles, heads * tiles)
    found = deal(order_of(plan), heads, tiles, fit, ctas)
    return ctas, (found.heads, found.places, found.count)


def _fit(plan: BackwardWidths, sizes: Sizes, rows: Any) -> Any:
    """Key heads whose queries, gradients and sums of dQ fit into the plan's share of L2."""
    row_bytes = 2 * (plan.head_dim + plan.head_dim_v) + 4 * plan.width_qk
    head_bytes = Int64(rows) * (Int64(group(sizes)) * row_bytes)
    fit = Int32(cutlass.min(Int64(plan.l2_bytes) // cutlass.max(head_bytes, Int64(1)), Int64(MOST_HEADS)))
    return cutlass.max(fit, Int32(1))


def next_tile(plan: BackwardWidths, work: Work, tile: Any) -> Any:
    """Number of the CTA's next work tile.

    Where adding has an order too, a CTA takes one of every round: always a later place than it had.
    """
    return following_place(order_of(plan), tile, again(work.ctas), work.rounds, lambda place: _is_empty(plan, work, place))


def _is_empty(plan: BackwardWidths, work: Work, place: Any) -> Any:
    """Whether a place has no tile."""
    turned = work.sequences.turned
    sizes, together, facts = own_sizes(work.sizes), again(work.rounds.heads), turned.again(turned.facts)
    turns, rest = _divide(place, again(work.rounds.places))
    heads = cutlass.min(sizes.kv_heads * turned.lanes(sizes) - turns * together, together)
    return rest >= heads * (turned.blocks(plan.work_keys, facts, sizes.batch) * plan.parts)


def locate(plan: BackwardWidths, work: Work, tile: Any) -> KeyAt:
    """Place of a work tile: a group of heads after the other, in a group the first keys first, in a key tile every head.

    Under a causal mask the first keys are seen by most queries; started first, they leave no CTA alone at the end. Where dQ is
    added up in order, the last keys come first: each then begins with a query tile of its own and follows its predecessor.
    """
    # Read anew for every tile, where they are parameters: numbers that a role holds all the time cost it registers.
    turned = work.sequences.turned
    sizes, together, facts = own_sizes(work.sizes), again(work.rounds.heads), turned.again(turned.facts)
    across = turned.blocks(plan.work_keys, facts, sizes.batch)
    turns, rest = _divide(tile, again(work.rounds.places))
    rest, part = _divide(rest, plan.parts) if plan.parts > 1 else (rest, 0)
    heads = cutlass.min(sizes.kv_heads * turned.lanes(sizes) - turns * together, together)
    number, head = _divide(rest, heads)
    number = across - 1 - number if plan.last_first else number
    lane, hkv = _divide(turns * together + head, sizes.kv_heads)
    found, key = turned.find(plan.work_keys, turn(sizes), facts, lane, number)
    sequence = _turn_back(found)
    last = cutlass.min(key + (plan.work_keys - 1), sequence.keys - 1)
    first, last = (sequence.kv_first + place for place in (cutlass.min(key, last), last))
    key = key if plan.ctas == 1 else key + work.rank * plan.tile_kv
    ends = (sequence.kv_first + sequence.keys, sequence.q_first + sequence.rows)
    place = work.sequences.axis(plan, sequence)
    return KeyAt(
        sequence, sequence.sizes, work.tensors, sequence.b, hkv * group(sizes), hkv, key, first, last, *ends, *place, part
    )


def _divide(value: Any, by: Any) -> tuple[Any, Any]:
    quotient = Int32(Uint32(value) // Uint32(by))
    return quotient, value - quotient * by


def visit(plan: Widths, mods: BackwardMods, at: KeyAt) -> Steps:
    """Query tiles of one head that see something of the key tile, one for all lanes; counted from the first row at hand."""
    return by_warp(lambda: walk_of(plan, mods, at)) if plan.ctas == 1 else walk_of(plan, mods, at)


def visit_once(plan: Widths, mods: BackwardMods, at: KeyAt) -> Steps | None:
    """The same of all heads of a group, as `survey_once`."""
    return visit(plan, mods, at) if mods.reads_once else None


def walk_of(plan: Widths, mods: BackwardMods, at: KeyAt) -> Steps:
    """The same of a key tile that each lane may have its own of."""
    first = at.sequence.q_first
    return runs(plan.tile_q, at.sequence.rows, tuple((low - first, high - first) for low, high in mods.queries(at)))


def steps_of(plan: Widths, mods: BackwardMods, at: KeyAt, seen: Seen | None = None) -> Any:
    """Steps of a work tile: those of all heads of the group. seen: what `survey_once` has found."""
    if seen is None and not mods.reads_once:
        return _sum_of_steps(plan, mods, at)
    return (visit(plan, mods, at) if seen is None else seen.run).trips * group(at.sizes)


@cute.jit
def _sum_of_steps(plan: Widths, mods: BackwardMods, at: KeyAt):
    first = at.h
    total = Int32(0)
    for head in cutlass.range(group(at.sizes), unroll=1):
        total += visit(plan, mods, of_head(at, first + head)).trips
    return total


def row_tile(work: Work, at: KeyAt, query_tile: Any) -> Any:
    """Number of a query tile among those of all heads and sequences, by which the passes before and after count their CTAs."""
    return (at.axis * at.sizes.heads + at.h) * work.sequences.blocks + at.block + query_tile


def find_row(plan: Widths, sizes: Sizes, sequences: Sequences, tile: Any, thread: Any) -> tuple[Sequence, Any, Any]:
    """Of a CTA of a pass before or after: its sequence, its query head, and a thread's row, counted from the first at hand.

    sequences: by query blocks. The row may lie beyond the sequence, or its block be one without rows.
    """
    across = sequences.blocks(plan.tile_q, sequences.facts, sizes.batch)
    head, number = _divide(tile, across)
    lane, h = _divide(head, sizes.heads)
    sequence, row = sequences.find(plan.tile_q, sizes, sequences.facts, lane, number)
    return sequence, h, row + thread
