"""Which key tile a CTA does next, where it lies, and which query tiles of which heads it visits: one answer for every role."""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.sm100.kernel.backward_bundles import BackwardMods
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.work import MOST_HEADS, Sizes, Steps, Work, runs
from cutlass import Int32, Int64, Uint32


@dataclass(frozen=True)
class KeyAt:
    """Where a key tile is. h: a query head; kv_base: its first key; kv_first, kv_last: its ends that exist (inclusive)."""

    sizes: Sizes
    tensors: Any
    b: Any
    h: Any
    hkv: Any
    kv_base: Any
    kv_first: Any
    kv_last: Any


def of_head(at: KeyAt, h: Any) -> KeyAt:
    """The same tile, met by another query head of its group."""
    return KeyAt(at.sizes, at.tensors, at.b, h, at.hkv, at.kv_base, at.kv_first, at.kv_last)


def group(sizes: Sizes) -> Any:
    """Query heads that share a key head."""
    return sizes.heads // sizes.kv_heads


def key_tiles(plan: BackwardPlan, sizes: Sizes) -> Any:
    """Key tiles of a head."""
    return (sizes.len_kv + (plan.tile_kv - 1)) // plan.tile_kv


def query_tiles(plan: BackwardPlan, sizes: Sizes) -> Any:
    """Query tiles of a head."""
    return (sizes.len_q + (plan.tile_q - 1)) // plan.tile_q


def count(plan: BackwardPlan, sizes: Sizes) -> Any:
    """Work tiles of a call."""
    return key_tiles(plan, sizes) * sizes.kv_heads * sizes.batch


def together(plan: BackwardPlan, sizes: Sizes) -> Any:
    """Key heads to work on at a time: as many as their queries, gradients and sums of dQ fit into the plan's share of L2."""
    if not plan.longest_first:
        return Int32(1)
    row_bytes = 2 * (plan.head_dim + plan.head_dim_v) + 4 * plan.width_qk
    head_bytes = Int64(sizes.len_q) * (Int64(group(sizes)) * row_bytes)
    fit = Int32(cutlass.min(Int64(plan.l2_bytes) // cutlass.max(head_bytes, Int64(1)), Int64(MOST_HEADS)))
    return cutlass.max(fit, Int32(1))


def locate(plan: BackwardPlan, work: Work, tile: Any) -> KeyAt:
    """Place of a work tile: a group of heads after the other, in a group the first keys first, in a key tile every head.

    Under a causal mask the first keys are seen by most queries; started first, they leave no CTA alone at the end.
    """
    sizes = work.sizes
    across = key_tiles(plan, sizes)
    turn, rest = _divide(tile, work.together * across)
    heads = cutlass.min(sizes.kv_heads * sizes.batch - turn * work.together, work.together)
    number, head = _divide(rest, heads)
    b, hkv = _divide(turn * work.together + head, sizes.kv_heads)
    base = number * plan.tile_kv
    last = cutlass.min(base + (plan.tile_kv - 1), sizes.len_kv - 1)
    return KeyAt(sizes, work.tensors, b, hkv * group(sizes), hkv, base, base, last)


def _divide(value: Any, by: Any) -> tuple[Any, Any]:
    quotient = Int32(Uint32(value) // Uint32(by))
    return quotient, value - quotient * by


def visit(plan: BackwardPlan, mods: BackwardMods, at: KeyAt) -> Steps:
    """Query tiles of one head that see something of the key tile."""
    return runs(plan.tile_q, at.sizes.len_q, mods.queries(at))


@cute.jit
def steps_of(plan: BackwardPlan, mods: BackwardMods, at: KeyAt):
    """Steps of a work tile: those of all heads of the group."""
    queries, first, tile = mods.queries, at.h, plan.tile_q
    total = Int32(0)
    for head in cutlass.range(group(at.sizes), unroll=1):
        total += runs(tile, at.sizes.len_q, queries(of_head(at, first + head))).trips
    return total


def row_tile(plan: BackwardPlan, at: KeyAt, query_tile: Any) -> Any:
    """Number of a query tile among those of all heads and sequences."""
    return (at.b * at.sizes.heads + at.h) * query_tiles(plan, at.sizes) + query_tile
