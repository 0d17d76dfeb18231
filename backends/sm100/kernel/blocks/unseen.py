"""NaN and infinity in a value that some rows of a tile do not see (`not_finite`), where O is in tensor memory."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, keys_below
from attnspec.backends.cute.kernel.blocks.not_finite import PIECE, WORD_BYTES, WORDS, first_value, infinite_halves, poison, sees
from attnspec.backends.cute.kernel.blocks.pair import least
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.work import At, key_tile, visit
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Float32, Int32, Int64, Uint32

WARP = 32


def has_infinite(pairs: list[Any], total: Any) -> Any:
    """`total`, NaN from the first pair on that holds a value that is not finite."""
    for pair in pairs:
        total = f32.multiply_add(pair, f32.twice(0.0), total)
    return total


@cute.jit
def note(plan: Plan, tiles: Tiles, tile: Int32, row_sum: Float32, total: Float32):
    """Remember a work tile if `total` is NaN and the row's sum is a number; the first one counts."""
    if (total != total) & (row_sum == row_sum):
        _remember(plan, (tiles.starts + 2).toint(), tile)


def _remember(plan: Plan, address: Int32, tile: Int32) -> None:
    """In every CTA that shares work tiles."""
    if plan.ctas == 1:
        ptx("red.shared.min.s32 [{$r0}], {$r1};", address, tile)
    else:
        least(address, tile)


@cute.jit
def clear(plan: Plan, value: Int32):
    """0 in the place of what is not finite, in a tile of values in shared memory; by the lanes of one warp.

    A word at a time: the role that calls this has few registers.
    """
    address = value + cute.arch.lane_idx() * WORD_BYTES
    for _ in cutlass.range(plan.value_boxes * plan.value_box_bytes // (WARP * WORD_BYTES), unroll=1):
        word = ptx("ld.shared.b32 {$w0}, [{$r0}];", address, returns=[Uint32])
        ptx("st.shared.b32 [{$r0}], {$r1};", address, word & ~infinite_halves(plan, word))
        address += WARP * WORD_BYTES
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_warp()


@cute.jit
def bring(plan: Plan, tiles: Tiles, at: At, first: Int32, column: Int32, address: Int32):
    """A CTA's half of a tile of values, without what is not finite, to shared memory as TMA leaves it; by the lanes of one warp.

    first: the tile's first key, of those at hand; column: the half's first column.
    """
    values, lane = first_value(tiles, at), cute.arch.lane_idx()
    pieces = plan.row_bytes // (PIECE * 2)
    for turn in cutlass.range(plan.tile_kv * pieces // WARP, unroll=1):
        key, piece = (turn * WARP + lane) // pieces, (turn * WARP + lane) % pieces
        start = column + piece * PIECE
        words = [Uint32(0)] * WORDS
        w0, w1, w2, w3 = words
        if (first + key < at.sequence.keys) & (start < plan.head_dim_v):
            w0, w1, w2, w3 = _piece(tiles, values, first + key, start)
        words = [word & ~infinite_halves(plan, word) for word in (w0, w1, w2, w3)]
        place = address + key * plan.row_bytes + (piece ^ key % pieces) * (PIECE * 2)
        ptx("st.shared.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};", place, *words)
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_warp()


@cute.jit
def show(plan: Plan, tiles: Tiles, mods: Mods, whole: At, at: At, thread: Int32, address: Int32):
    """Add what is not finite to O, in tensor memory, of the rows that see it. whole: place of the work tile, at: of the row's."""
    keys = mods.keys
    run = visit(plan, whole, keys(whole))
    q = cutlass.min(at.q_first + at.place, at.q_last)
    row, values = mods.row(q, at), first_value(tiles, at)
    for column in cutlass.range(0, plan.head_dim_v, PIECE, unroll=1):
        o = tensor_memory.load(address + column, PIECE)
        tensor_memory.wait_loads()
        o0, o1, o2, o3, o4, o5, o6, o7 = o
        for step in cutlass.range(run.key_tiles, unroll=1):
            for word in cutlass.range(plan.tile_kv // WORD, unroll=1):
                first = at.kv_first + key_tile(run, step) * plan.tile_kv + word * WORD
                mine = cutlass.min(first + thread % WARP, at.kv_end - 1)
                bad = cute.arch.vote_ballot_sync(_is_infinite(plan, _piece(tiles, values, mine - at.kv_first, column)))
                there = Uint32(bad) & keys_below(at.kv_end, first)
                for key in cutlass.range(WORD, unroll=1):
                    if (there >> Uint32(key)) & Uint32(1) != Uint32(0):  # noqa: SIM102 what a row sees is looked up where it matters
                        if sees(mods, q, first + key, at, row):
                            words = _piece(tiles, values, first + key - at.kv_first, column)
                            more = [poison(plan, word, half) for word in words for half in range(2)]
                            o0, o1, o2, o3 = o0 + more[0], o1 + more[1], o2 + more[2], o3 + more[3]
                            o4, o5, o6, o7 = o4 + more[4], o5 + more[5], o6 + more[6], o7 + more[7]
        tensor_memory.store(address + column, f32.words([o0, o1, o2, o3, o4, o5, o6, o7]))
    tensor_memory.wait_stores()


def _piece(tiles: Tiles, values: Int64, key: Any, column: Any) -> tuple[Uint32, ...]:
    """Eight columns of a value, as words, from global memory; keys are counted from the first at hand."""
    address = values + (Int64(key) * Int64(tiles.value.stride[1]) + Int64(column)) * 2
    return ptx("ld.global.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];", address, returns=[Uint32] * WORDS)


def _is_infinite(plan: Plan, words: tuple[Uint32, ...]) -> Boolean:
    found = Uint32(0)
    for word in words:
        found = found | infinite_halves(plan, word)
    return found != Uint32(0)
