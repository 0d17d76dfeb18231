"""Adding to the gradient of a learned tensor in global memory."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import Exact
from attnspec.backends.cute.kernel.blocks import exact_sum
from attnspec.backends.cute.kernel.blocks.arithmetic import place
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Float32, Int32, Int64


def with_warp(tensor: Any, indices: tuple[Any, ...], value: Float32) -> None:
    """Add the sum over a warp, from one lane."""
    for step in (16, 8, 4, 2, 1):
        value = value + from_lane(value, step)
    with cute.arch.elect_one():
        add(tensor, indices, value)


def add(tensor: Any, indices: tuple[Any, ...], value: Float32) -> None:
    """Add to an element of a sum in global memory."""
    if isinstance(tensor, Exact):
        exact_sum.add(_words(tensor, indices), value)
    else:
        ptx("red.global.add.f32 [{$r0}], {$r1};", place(tensor, indices).toint(), value)


def _words(sums: Exact, indices: tuple[Any, ...]) -> Int64:
    """Address of the words of an element."""
    offset = Int64(place(sums.tensor, indices).toint()) - Int64(sums.tensor.iterator.toint())
    return Int64(sums.words.iterator.toint()) + offset * (exact_sum.WORDS * exact_sum.WORD_BYTES // 4)


def from_lane(value: Float32, distance: int) -> Float32:
    """The value of the lane whose number differs in that bit."""
    return ptx(f"shfl.sync.bfly.b32 {{$w0}}, {{$r0}}, {distance}, 31, 0xffffffff;", value, returns=[Float32])


@cute.jit
def add_unless_zero(tensor: Any, indices: tuple, value: Float32):
    """Most shares of a masked tile are 0, and what lies beyond the sequences has no place."""
    if value != Float32(0.0):
        add(tensor, indices, value)


@cute.jit
def add_all(tensor: Any, places: tuple, values: tuple):
    """Each to its place; where all of a warp are of one place, as beyond a clamp, their sum. places: indices of each value."""
    memory = tensor.tensor if isinstance(tensor, Exact) else tensor
    first = _first_lane(Int64(place(memory, places[0]).toint()))
    is_one = Int32(1)
    total = Float32(0.0)
    for index in cutlass.range_constexpr(len(values)):
        here = Int64(place(memory, places[index]).toint())
        is_one = is_one & Int32((here == first) | (values[index] == Float32(0.0)))
        total = total + values[index]
    if _all(is_one) != 0:
        for distance in cutlass.range_constexpr(5):
            total = total + from_lane(total, 1 << distance)
        if cute.arch.lane_idx() == 0:
            add_unless_zero(tensor, places[0], total)
    else:
        for index in cutlass.range_constexpr(len(values)):
            add_unless_zero(tensor, places[index], values[index])


def _first_lane(value: Int64) -> Int64:
    """The value of lane 0."""
    text = (
        "{.reg .b32 a, b; mov.b64 {a, b}, {$r0}; shfl.sync.idx.b32 a, a, 0, 31, 0xffffffff; "
        "shfl.sync.idx.b32 b, b, 0, 31, 0xffffffff; mov.b64 {$w0}, {a, b};}"
    )
    return ptx(text, value, returns=[Int64])


def _all(condition: Int32) -> Int32:
    """Whether it holds in all lanes."""
    text = "{.reg .pred p, q; setp.ne.b32 p, {$r0}, 0; vote.sync.all.pred q, p, 0xffffffff; selp.b32 {$w0}, 1, 0, q;}"
    return ptx(text, condition, returns=[Int32])
