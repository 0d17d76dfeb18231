"""Adding to the gradient of a learned tensor in global memory."""

from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import Exact
from attnspec.backends.cute.kernel.blocks import exact_sum
from attnspec.backends.cute.kernel.blocks.arithmetic import place
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Float32, Int64


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
