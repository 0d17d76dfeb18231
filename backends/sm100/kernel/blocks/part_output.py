"""The end of a row of which a work tile had a part of the keys: what `merge` goes on with, to global memory."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.row_end import LOG2_E
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.merge import row_number
from attnspec.backends.cute.kernel.work import At
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Float32, Int64

WORD_BYTES = 4
VECTOR = 4  # words of a 16-byte store


def with_sink(mods: Mods, at: At, row_sum: Float32, row_max: Float32) -> tuple[Float32, Float32, Float32]:
    """Factor for O, maximum and sum of a row; the sink joins those of the first part."""
    if mods.sink is None:
        return Float32(1.0), row_max, row_sum
    own = mods.sink(at) * (LOG2_E / mods.to_log2)  # in the units of the maximum
    own = Float32(cutlass.select_(at.part == 0, own, -Float32.inf))
    top = f32.larger(row_max, own)
    base = Float32(cutlass.select_(top == -Float32.inf, Float32(0.0), top))
    factor, more = (cute.math.exp2((value - base) * mods.to_log2, fastmath=True) for value in (row_max, own))
    return factor, top, row_sum * factor + more


def place_of(plan: Plan, tiles: Tiles, at: At) -> tuple[Int64, Int64]:
    """Addresses of the row's products and of its two statistics."""
    sequence = at.sequence
    row = row_number(tiles.lse, at.part, sequence.lse_axis, at.h, sequence.lse_row + at.row + at.place)
    return (tiles.parts_out.iterator + row * plan.width_v).toint(), (tiles.parts_stats.iterator + row * 2).toint()


@cute.jit
def put_stats(address: Int64, row_max: Float32, row_sum: Float32, exists: Boolean):
    """Maximum and sum, of a row that exists."""
    if exists:
        ptx("st.global.v2.f32 [{$r0}], {{$r1}, {$r2}};", address, row_max, row_sum)


@cute.jit
def put_columns(address: Int64, values: list, exists: Boolean):
    """Some columns of a row that exists, from `address` on."""
    if exists:
        for at in cutlass.range_constexpr(0, len(values), VECTOR):
            text = f"st.global.v4.f32 [{{$r0}}+{at * WORD_BYTES}], {{{{$r1}}, {{$r2}}, {{$r3}}, {{$r4}}}};"
            ptx(text, address, *values[at : at + VECTOR])


def zeros(plan: Plan, address: Any, exists: Any) -> None:
    """A row of no products."""
    for column in range(0, plan.width_v, VECTOR):
        put_columns(address + column * WORD_BYTES, [Float32(0.0)] * VECTOR, exists)
