"""NaN and infinity in a value that some rows of a tile do not see (`not_finite`), where O is in registers."""

from collections.abc import Sequence
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, keys_below
from attnspec.backends.cute.kernel.blocks.not_finite import PIECE, WORD_BYTES, WORDS, first_value, infinite_halves, poison, sees
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.work import At, key_tile, visit
from attnspec.backends.sm90.kernel.blocks import scalar
from attnspec.backends.sm90.kernel.blocks.held import Held, Place
from attnspec.backends.sm90.kernel.blocks.registers import keep, values
from attnspec.backends.sm90.kernel.blocks.rows import row_of
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS, Plan
from cutlass import Boolean, Float32, Int32, Int64, Uint32

CLEARED_BARRIER = 9  # after those of the warpgroups' turns and of their staged values


def note(tiles: Tiles, tile: Int32, o: Sequence[Float32], sums: Sequence[Float32]) -> None:
    """Remember a work tile if a row of O is not finite and its sum is a number; the first one counts."""
    totals = [Float32(0.0), Float32(0.0)]
    for index, value in enumerate(o):
        totals[row_of(index)] = scalar.fused(value, Float32(0.0), totals[row_of(index)])
    for total, row_sum in zip(totals, sums, strict=True):
        _note(tiles, tile, row_sum, total)


@cute.jit
def _note(tiles: Tiles, tile: Int32, row_sum: Float32, total: Float32):
    if (total != total) & (row_sum == row_sum):
        ptx("red.shared.min.s32 [{$r0}], {$r1};", (tiles.starts + 2).toint(), tile)


@cute.jit
def clear(plan: Plan, value: Int32, place: Place):
    """0 in the place of what is not finite, in a tile of values in shared memory; by all warpgroups that multiply."""
    threads, boxes = plan.warpgroups * GROUP_THREADS, -(-plan.head_dim_v // plan.box_columns)
    address = value + (place.group * GROUP_THREADS + place.thread) * WORD_BYTES
    end = value + boxes * plan.key_box_bytes
    while address < end:
        word = ptx("ld.shared.b32 {$w0}, [{$r0}];", address, returns=[Uint32])
        ptx("st.shared.b32 [{$r0}], {$r1};", address, word & ~infinite_halves(plan, word))
        address += threads * WORD_BYTES
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.barrier(barrier_id=CLEARED_BARRIER, number_of_threads=threads)


@cute.jit
def show(plan: Plan, tiles: Tiles, mods: Mods, at: At, place: Place, q: tuple, rows: tuple, held: Held):
    """Add what is not finite to O, in registers, of the rows that see it."""
    keys = mods.keys
    run = visit(plan, at, keys(at))
    address = first_value(tiles, at)
    for step in cutlass.range(run.trips, unroll=1):
        start = at.kv_first + key_tile(run, step) * plan.tile_kv
        end = at.kv_end if plan.tile_kv % WORD == 0 else cutlass.min(at.kv_end, start + plan.tile_kv)
        for word in cutlass.range(-(-plan.tile_kv // WORD), unroll=1):
            first = start + word * WORD
            mine = cutlass.min(first + place.lane, at.kv_end - 1)
            bad = cute.arch.vote_ballot_sync(_has_infinite(plan, tiles, address, mine - at.kv_first))
            there = Uint32(bad) & keys_below(end, first)
            for key in cutlass.range(WORD, unroll=1):
                if (there >> Uint32(key)) & Uint32(1) != Uint32(0):
                    _add(plan, tiles, mods, at, place, q, rows, held, address, first + key)


def _add(
    plan: Plan, tiles: Tiles, mods: Mods, at: At, place: Place, q: tuple[Any, Any], rows: Any, held: Held, first: Int64, key: Any
) -> None:  # fmt: skip
    """What is not finite of one key's value, to both rows if they see it."""
    sight = [sees(mods, q[row], key, at, rows[row]) for row in range(2)]
    found = values(held.o)
    start = _place_of(tiles, first, key - at.kv_first) + Int64(place.lane % 4 * WORD_BYTES)
    for column in range(0, plan.width_v, PIECE):
        if column < plan.head_dim_v:
            word = ptx(f"ld.global.b32 {{$w0}}, [{{$r0}}+{column * 2}];", start, returns=[Uint32])
            halves = [poison(plan, word, half) for half in range(2)]
            for index in range(4):
                more = Float32(cutlass.select_(sight[row_of(index)], halves[index % 2], Float32(0.0)))
                found[column // 2 + index] = found[column // 2 + index] + more
    keep(held.o, found)


def _place_of(tiles: Tiles, first: Int64, key: Any) -> Int64:
    """Address of a key's value; keys are counted from the first at hand."""
    return first + Int64(key) * Int64(tiles.value.stride[1]) * 2


@cute.jit
def _has_infinite(plan: Plan, tiles: Tiles, values_at: Int64, key: Int32) -> Boolean:
    """Whether a key's value has what is not finite."""
    address, found = _place_of(tiles, values_at, key), Uint32(0)
    for _ in cutlass.range(plan.head_dim_v // PIECE, unroll=1):
        for word in ptx("ld.global.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];", address, returns=[Uint32] * WORDS):
            found = found | infinite_halves(plan, word)
        address += Int64(PIECE * 2)
    return found != Uint32(0)
