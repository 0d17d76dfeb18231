"""Sums over lanes of a warp that have a number each for the same places: while lanes are added up, places are shared out."""

from collections.abc import Sequence

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.gradient_sums import from_lane
from attnspec.backends.cute.kernel.work import again
from attnspec.backends.sm90.kernel.blocks import scalar
from cutlass import Float32, Int32


def share_out(values: Sequence[Float32], bits: tuple[int, ...]) -> tuple[list[Float32], Int32]:
    """Of sums over the lanes whose numbers differ in `bits`, those that this lane has in the end, and the number of its first.

    Each bit halves what a lane has and doubles what is in it: as many additions as places, not as many as places and bits.
    """
    lane, found = cute.arch.lane_idx(), list(values)
    for bit in bits:
        half = len(found) // 2
        is_upper = (lane & bit) != 0
        kept = []
        for low, high in zip(found[:half], found[half:], strict=True):
            own, sent = (Float32(cutlass.select_(is_upper, *both)) for both in ((high, low), (low, high)))
            kept.append(scalar.plus(own, from_lane(sent, bit)))
        found = kept
    part, lane = Int32(0), again(lane)  # worked out anew, or it is held in a register from before the loop
    for bit in bits:
        part = part * 2 + (lane >> bit.bit_length() - 1 & 1)
    return found, Int32(part * len(found))
