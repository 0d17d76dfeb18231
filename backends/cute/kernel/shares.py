"""Which work tile a CTA does next, and where it lies: one answer for every role."""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import pair
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.cut import Cut, chunks, heads_of, parts_of, rows_of
from attnspec.backends.cute.kernel.plan import Widths
from attnspec.backends.cute.kernel.rounds import Rounds as Rounds
from attnspec.backends.cute.kernel.rounds import deal, following_place, order_of
from attnspec.backends.cute.kernel.work import (
    AGAIN,
    LAST_BARRIER,
    MOST_HEADS,
    NUMBER,
    At,
    Sequences,
    Sizes,
    Work,
    again,
    clip,
    own_cut,
    own_sizes,
)
from cutlass import Int32, Int64, Uint32


def deal_tiles(plan: Widths, sizes: Sizes, sequences: Sequences, keys: Any, processors: Any, cut: Cut | None = None) -> Any:
    """CTAs of a call, and in which order they take its work tiles: where tiles are alike, those of one head after another's.

    keys: at hand, of one head. processors: for a CTA, or a pair, each. Returns numbers: of CTAs, and those of `Rounds`.
    """
    heads = _across(plan, cut, sizes) * sequences.lanes(sizes)
    tiles = sequences.blocks(rows_of(plan, cut), sequences.facts, sizes.batch) * parts_of(cut)
    ctas = cutlass.min(heads * tiles, processors)
    found = deal(order_of(plan), heads, tiles, _fit(plan, sizes, keys, cut), cutlass.max(ctas, 1))
    return ctas, (found.heads, found.places, found.count)


def _across(plan: Widths, cut: Cut | None, sizes: Sizes) -> Any:
    """Work tiles of all heads that one block of rows has."""
    return sizes.kv_heads * chunks(plan, cut, sizes.heads // sizes.kv_heads)


def _fit(plan: Widths, sizes: Sizes, keys: Any, cut: Cut | None) -> Any:
    """Heads, or chunks of a group's, whose keys and values fit into the plan's share of L2 (FA4, head swizzle)."""
    head_bytes = Int64(keys) * (2 * (plan.head_dim + plan.head_dim_v))
    fit = Int32(cutlass.min(Int64(plan.l2_bytes) // cutlass.max(head_bytes, Int64(1)), Int64(MOST_HEADS)))
    return cutlass.max(fit * chunks(plan, cut, sizes.heads // sizes.kv_heads), Int32(1))


@dataclass(frozen=True)
class Spot:
    """Where a work tile is, in numbers that take divisions to find. lane: of the axes of blocks; unit: its head, or chunk of a
    group's heads."""

    lane: Any
    block: Any
    unit: Any
    part: Any


def spot_of(plan: Widths, work: Work, tile: Any) -> Spot:
    """Spot of a work tile: a group of heads after the other, in a group the last query blocks first, in a block every head.

    Under a causal mask the last blocks are the longest.
    """
    tile, part = tile & NUMBER, Int32(0)
    sequences, cut = work.sequences, own_cut(work.cut)
    # Read anew for every tile, where they are parameters: numbers that a role holds all the time cost it registers.
    sizes, facts, heads = own_sizes(work.sizes), sequences.again(sequences.facts), again(work.rounds.heads)
    blocks = sequences.blocks(rows_of(plan, cut), facts, sizes.batch)
    across = _across(plan, cut, sizes)
    group, rest = _divide(tile, again(work.rounds.places))
    if cut is not None:
        rest, part = _part_of(rest, cut.parts)
    units = cutlass.min(across * sequences.lanes(sizes) - group * heads, heads)
    turn, unit = _divide(rest, units)
    lane, unit = _divide(group * heads + unit, across)
    return Spot(lane, blocks - 1 - turn, unit, part)


def at_spot(plan: Widths, work: Work, spot: Spot) -> At:
    """The place of a spot: its sequence, and which of its rows there are."""
    sequences, cut = work.sequences, own_cut(work.cut)
    rows = rows_of(plan, cut)
    sizes, facts = own_sizes(work.sizes), sequences.again(sequences.facts)
    sequence, row = sequences.find(rows, sizes, facts, spot.lane, spot.block)
    group = sequence.sizes.heads // sequence.sizes.kv_heads
    hkv, chunk = _divide(spot.unit, chunks(plan, cut, group))
    h = spot.unit if cut is None or cut.row_bits is None else hkv * group + chunk * heads_of(plan, cut)
    return At(sequence, work.tensors, h, hkv, row, *clip(sequence, row, rows.count), spot.part, parts_of(cut))


def locate(plan: Widths, work: Work, tile: Any) -> At:
    """Place of a work tile."""
    return at_spot(plan, work, spot_of(plan, work, tile))


def upcoming(plan: Widths, work: Work, tile: Any) -> Any:
    """Number of the CTA's next work tile; a second time over, that of the one to be done again."""
    place = tile & NUMBER
    found = following_place(order_of(plan), place, again(work.ctas), work.rounds, lambda place: _is_empty(plan, work, place))
    return tile + (found - place)


def _is_empty(plan: Widths, work: Work, place: Any) -> Any:
    """Whether a place has no tile."""
    sequences, cut = work.sequences, own_cut(work.cut)
    sizes, facts, heads = own_sizes(work.sizes), sequences.again(sequences.facts), again(work.rounds.heads)
    group, rest = _divide(place, again(work.rounds.places))
    units = cutlass.min(_across(plan, cut, sizes) * sequences.lanes(sizes) - group * heads, heads)
    return rest >= units * (sequences.blocks(rows_of(plan, cut), facts, sizes.batch) * parts_of(cut))


@cute.jit
def _part_of(tile: Int32, parts: Int32):
    """Number of the tile among those of all keys, and which part of the keys it has."""
    part = Int32(0)
    if parts > 1:
        whole = Int32(Uint32(tile) // Uint32(parts))
        part = tile - whole * parts
        tile = whole
    return tile, part


@cute.jit
def following(plan: Widths, tiles: Tiles, mods: Mods, work: Work, tile: Int32, stores: cutlass.Constexpr = False):
    """The CTA's next work tile: when all are done, once more from the first that was noted as doubtful (see `unseen`).

    stores: the warp has stores under way, which must have been written before others go to the same places.
    """
    tile = upcoming(plan, work, tile)
    if cutlass.const_expr(mods.hides):  # noqa: SIM102 decided while tracing
        if tile >= work.count:
            if cutlass.const_expr(stores):
                cute.arch.cp_async_bulk_wait_group(0, read=False)
            _meet(plan)
            doubtful = (tiles.starts + 2).load()
            if doubtful < work.count:
                tile = doubtful | Int32(AGAIN)
    return tile


def _meet(plan: Widths) -> None:
    """All warps that have work tiles have come here, of all CTAs that share them; of a pair, those that stand by too."""
    if plan.ctas == 1:
        cute.arch.barrier(barrier_id=LAST_BARRIER, number_of_threads=plan.working_threads)
    else:
        pair.meet()


def _divide(value: Any, by: Any) -> tuple[Any, Any]:
    """Quotient and remainder of numbers that are not negative."""
    quotient = Int32(Uint32(value) // Uint32(by))
    return quotient, value - quotient * by
