"""Which work tile a CTA does next, where it lies, and which key tiles it visits: one answer for every role."""

from dataclasses import dataclass, field
from typing import Any

import cutlass
from attnspec.backends.sm100.kernel.blocks.ptx import ptx
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32, Int64, Uint32

MOST_HEADS = 1024  # more than any L2 holds, few enough that tile numbers stay in 32 bits


@dataclass(frozen=True)
class Sizes:
    """Sizes of the call, Int32 each; `offset` values turn positions in the tensors into positions of the whole sequence."""

    batch: Any
    heads: Any
    kv_heads: Any
    len_q: Any
    len_kv: Any


@dataclass(frozen=True)
class Work:
    """A CTA's share of the work tiles: first, first + stride, ... below count. tensors: the variant's own, by name.

    together: heads whose tiles are mixed, the longest of all of them first.
    """

    sizes: Sizes
    first: Any
    stride: Any
    count: Any
    together: Any
    tensors: Any = field(default=None)


@dataclass(frozen=True)
class At:
    """Where a tile is. q_first, q_last: its first and last row that exist (inclusive); q_base: its first row, existing or not."""

    sizes: Sizes
    tensors: Any
    b: Any
    h: Any
    hkv: Any
    q_base: Any
    q_first: Any
    q_last: Any


@dataclass(frozen=True)
class Steps:
    """Key tiles that a work tile visits, as disjoint ascending runs: starts and lengths in tiles; trips is their sum."""

    trips: Any
    starts: tuple[Any, ...]
    lengths: tuple[Any, ...]


def own_copy(work: Work) -> Work:
    """The same numbers, through instructions that the compiler may not merge with another role's.

    Left to itself it computes what all roles need (divisions, ranges) before they part, and spills it on the way.
    """
    sizes = work.sizes
    mine = Sizes(*(_again(value) for value in (sizes.batch, sizes.heads, sizes.kv_heads, sizes.len_q, sizes.len_kv)))
    return Work(mine, *map(_again, (work.first, work.stride, work.count, work.together)), work.tensors)


def _again(value: Any) -> Int32:
    return ptx("mov.b32 {$w0}, {$r0};", Int32(value), returns=[Int32])


def blocks(plan: Plan, sizes: Sizes) -> Any:
    """Work tiles along the query axis."""
    rows = plan.tile_q * plan.query_tiles
    return (sizes.len_q + (rows - 1)) // rows


def count(plan: Plan, sizes: Sizes) -> Any:
    """Work tiles of a call."""
    return blocks(plan, sizes) * sizes.heads * sizes.batch


def _at(plan: Plan, work: Work, b: Any, h: Any, q_base: Any, rows: int) -> At:
    sizes = work.sizes
    last = cutlass.min(q_base + (rows - 1), sizes.len_q - 1)
    hkv = h // (sizes.heads // sizes.kv_heads)
    return At(sizes, work.tensors, b, h, hkv, q_base, cutlass.min(q_base, last), last)


def together(plan: Plan, sizes: Sizes) -> Any:
    """Heads to work on at a time: as many as their keys and values fit into the plan's share of L2 (FA4, head swizzle).

    One head where tiles are alike: then nothing is gained by mixing them.
    """
    if not plan.longest_first:
        return Int32(1)
    head_bytes = Int64(sizes.len_kv) * (2 * (plan.head_dim + plan.head_dim_v))
    fit = Int32(cutlass.min(Int64(plan.l2_bytes) // cutlass.max(head_bytes, Int64(1)), Int64(MOST_HEADS)))
    return cutlass.max(fit * (sizes.heads // sizes.kv_heads), Int32(1))


def locate(plan: Plan, work: Work, tile: Any) -> At:
    """Place of a work tile: a group of heads after the other, in a group the last query blocks first, in a block every head.

    Under a causal mask the last blocks are the longest; started first, they leave no CTA alone at the end.
    """
    sizes, across = work.sizes, blocks(plan, work.sizes)
    group, rest = _divide(tile, work.together * across)
    heads = cutlass.min(sizes.heads * sizes.batch - group * work.together, work.together)
    turn, head = _divide(rest, heads)
    b, h = _divide(group * work.together + head, sizes.heads)
    rows = plan.tile_q * plan.query_tiles
    return _at(plan, work, b, h, (across - 1 - turn) * rows, rows)


def _divide(value: Any, by: Any) -> tuple[Any, Any]:
    """Quotient and remainder of numbers that are not negative."""
    quotient = Int32(Uint32(value) // Uint32(by))
    return quotient, value - quotient * by


def query_tile(plan: Plan, work: Work, at: At, lane: Any) -> At:
    """Place of one query tile of a work tile."""
    return _at(plan, work, at.b, at.h, at.q_base + lane * plan.tile_q, plan.tile_q)


def visit(plan: Plan, sizes: Sizes, ranges: tuple[tuple[Any, Any], ...]) -> Steps:
    """Key tiles that meet a range [first, last) of keys; the ranges may overlap, be empty, or leave the sequence."""
    return runs(plan.tile_kv, sizes.len_kv, ranges)


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
    """Index of the key tile of a step."""
    tile: Any = steps.starts[0] + step
    passed: Any = steps.lengths[0]
    for start, length in zip(steps.starts[1:], steps.lengths[1:], strict=True):
        tile = Int32(cutlass.select_(step >= passed, start + (step - passed), tile))
        passed = passed + length
    return tile


def meets(plan: Plan, sizes: Sizes, ranges: tuple[tuple[Any, Any], ...], first_key: Any) -> Any:
    """Whether a key tile has a masked element: it meets a range [first, last), or reaches beyond the sequence."""
    return touches(plan.tile_kv, sizes.len_kv, ranges, first_key)


def touches(tile: int, length: Any, ranges: tuple[tuple[Any, Any], ...], start: Any) -> Any:
    """Whether a tile from `start` meets a range, or reaches beyond the length of its axis."""
    end = start + tile
    found: Any = end > length
    for first, last in ranges:
        found = found | (cutlass.max(first, start) < cutlass.min(last, end))
    return found
