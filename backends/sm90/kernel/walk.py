"""Which work tile a CTA does next: where tiles differ in length, a long one, then a short one.

A CTA that takes the i-th block from the end and then the i-th from the start has as much to do as every other: under a
causal mask the two have one block's keys more than there are. Handed out in the order of their length, to CTAs in turn, tiles
would leave the first CTA with the longest of every round.
"""

from dataclasses import dataclass, replace
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel import work as shared
from attnspec.backends.cute.kernel.blocks.arithmetic import by_warp
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.work import AGAIN, LAST_BARRIER, NUMBER, At, Sequences, Sizes, Steps, Work, again, own_sizes
from attnspec.backends.sm90.kernel.plan import Plan
from cutlass import Boolean, Int32, Uint32

PAIR = 2
LONG = 8192  # keys of a sequence
MANY = 32  # heads; at 128 query blocks of 128 each, and 132 multiprocessors, their keys take a quarter of the memory's bandwidth


@dataclass(frozen=True)
class Share(Work):
    """A CTA's share of the work tiles. run: tiles that it takes in a row, 1 or 2, before the next ones are other CTAs'."""

    run: Any = 1


def blocks_of(plan: Plan, sequences: Sequences, facts: Any, batch: Any) -> Any:
    """Blocks of queries along an axis; where they go in pairs, an even number, of which the last may be empty."""
    found = sequences.blocks(plan.tile_q, facts, batch)
    return (found + 1) // PAIR * PAIR if plan.longest_first else found


def count(plan: Plan, sizes: Sizes, sequences: Sequences) -> Any:
    """Work tiles of a call."""
    return blocks_of(plan, sequences, sequences.facts, sizes.batch) * sizes.heads * sequences.lanes(sizes)


def hands_out(plan: Plan, keys: Any) -> Any:
    """Whether the chip itself hands out tiles, a CTA each: where they differ, and are long, so that a CTA's beginning is little
    of one. In pairs the last ones would keep others waiting, by 3 to 5 % of a call. keys: of a sequence, on average."""
    return Boolean(keys >= LONG) if plan.longest_first else Boolean(False)


def ctas_of(tiles: Any, processors: Any, one_each: Any) -> Any:
    """CTAs of a call: one for each multiprocessor at most, or one for each tile."""
    return Int32(cutlass.select_(one_each, tiles, cutlass.min(tiles, processors)))


def run_of(plan: Plan, tiles: Any, ctas: Any) -> Any:
    """Tiles that a CTA takes in a row: a pair, unless that would leave CTAs with nothing to do."""
    if not plan.longest_first:
        return Int32(1)
    return Int32(cutlass.select_(tiles >= ctas * PAIR, Int32(PAIR), Int32(1)))


def together(plan: Plan, sizes: Sizes, sequences: Sequences, keys: Any, one_each: Any) -> Any:
    """Heads to work on at a time: at most those whose keys and values fit the plan's share of L2, in groups of one size.

    Where tiles are handed out, so many that the last ones of a group, and the first of the next, are few among all.
    """
    most, heads = shared.together(plan, sizes, keys), sizes.heads * sequences.lanes(sizes)
    most = Int32(cutlass.select_(one_each, cutlass.max(most, Int32(MANY)), most))
    groups = cutlass.max((heads + most - 1) // most, Int32(1))
    return cutlass.max((heads + groups - 1) // groups, Int32(1))


@dataclass(frozen=True)
class Spot:
    """Where a work tile is, in numbers that take divisions to find. lane: of the axes of blocks; hkv: its key/value head."""

    lane: Any
    block: Any
    h: Any
    hkv: Any


def locate(plan: Plan, work: Share, tile: Any) -> At:
    """Place of a work tile."""
    return at_spot(plan, work, spot_of(plan, work, tile))


def spot_of(plan: Plan, work: Share, tile: Any) -> Spot:
    """Spot of a work tile: a group of heads after the other, in a group the longest blocks first, in a block every head."""
    sequences, tile = work.sequences, cutlass.min(tile & NUMBER, work.count - 1)
    # Read anew for every tile, where they are parameters: numbers that a role holds all the time cost it registers.
    sizes, facts, heads_at_once = own_sizes(work.sizes), sequences.again(sequences.facts), again(work.together)
    blocks = blocks_of(plan, sequences, facts, sizes.batch)
    group, rest = _divide(tile, heads_at_once * blocks)
    heads = cutlass.min(sizes.heads * sequences.lanes(sizes) - group * heads_at_once, heads_at_once)
    is_second: Any = False
    if plan.longest_first:
        in_pairs = again(work.run) == PAIR
        is_second = in_pairs & ((rest & 1) == 1)
        rest = Int32(cutlass.select_(in_pairs, rest // PAIR, rest))
    turn, head = _divide(rest, heads)
    lane, h = _divide(group * heads_at_once + head, sizes.heads)
    block = blocks - 1 - turn if is_second is False else Int32(cutlass.select_(is_second, turn, blocks - 1 - turn))
    return Spot(lane, block, h, h // (sizes.heads // sizes.kv_heads))


def at_spot(plan: Plan, work: Share, spot: Spot) -> At:
    """The place of a spot: its sequence, and which of its rows there are."""
    sequences = work.sequences
    sizes, facts = own_sizes(work.sizes), sequences.again(sequences.facts)
    sequence, row = sequences.find(plan.tile_q, sizes, facts, spot.lane, spot.block)
    if plan.longest_first:
        seen = Int32(cutlass.select_(row < sequence.rows, sequence.keys, Int32(0)))  # an empty block visits no keys
        sequence = replace(sequence, keys=seen)
    last = cutlass.min(row + (plan.tile_q - 1), sequence.rows - 1)
    first, last = (sequence.q_first + place for place in (cutlass.min(row, last), last))
    return At(sequence, work.tensors, spot.h, spot.hkv, row, first, last)


def survey(plan: Plan, mods: Mods, at: At) -> tuple[Steps, Any]:
    """Key tiles that a work tile visits, and ranges of keys in which some are masked, found by the warp, one for all lanes."""
    return by_warp(lambda: (shared.visit(plan, at, mods.keys(at)), mods.hidden(at)))


def visit(plan: Plan, mods: Mods, at: At) -> Steps:
    """The key tiles alone."""
    return by_warp(lambda: shared.visit(plan, at, mods.keys(at)))


@cute.jit
def following(plan: Plan, tiles: Tiles, mods: Mods, work: Share, tile: Int32, stores: cutlass.Constexpr = False):
    """The CTA's next work tile: when all are done, once more from the first that was noted as doubtful (see `unseen`).

    stores: the warp has stores under way, which must have been written before others go to the same places.
    """
    tile += step_from(plan, work, tile)
    if cutlass.const_expr(mods.hides):  # noqa: SIM102 decided while tracing
        if tile >= work.count:
            if cutlass.const_expr(stores):
                cute.arch.cp_async_bulk_wait_group(0, read=False)
            cute.arch.barrier(barrier_id=LAST_BARRIER, number_of_threads=plan.working_threads)
            doubtful = (tiles.starts + 2).load()
            if doubtful < work.count:
                tile = doubtful | Int32(AGAIN)
    return tile


def step_from(plan: Plan, work: Share, tile: Any) -> Any:
    """To the second tile of a pair, or to the CTA's next run."""
    if not plan.longest_first:
        return work.stride
    run = again(work.run)
    is_inside = (tile & (run - 1)) + 1 < run
    return Int32(cutlass.select_(is_inside, Int32(1), work.stride * run - run + 1))


def _divide(value: Any, by: Any) -> tuple[Any, Any]:
    """Quotient and remainder of numbers that are not negative."""
    quotient = Int32(Uint32(value) // Uint32(by))
    return quotient, value - quotient * by
