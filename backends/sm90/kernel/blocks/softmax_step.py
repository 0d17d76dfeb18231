"""One step of online softmax on the scores a thread holds of its two rows (Milakov and Gimelshein), four threads a row."""

from collections.abc import Callable, Sequence
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.exponential import is_emulated
from attnspec.backends.cute.kernel.bundles import Mods
from attnspec.backends.sm90.kernel.blocks import scalar
from attnspec.backends.sm90.kernel.blocks.registers import keep, values
from attnspec.backends.sm90.kernel.blocks.rows import row_of
from attnspec.backends.sm90.kernel.plan import Plan
from cutlass import Float32

QUAD = (1, 2)  # distances of the lanes that share a row
CHAINS = 2  # of maxima and sums that a row is gathered in, to have more than one under way


def of_row(values: Sequence[Float32], row: int) -> list[Float32]:
    """A thread's values of one of its rows."""
    return [value for index, value in enumerate(values) if row_of(index) == row]


def across_quad(value: Float32, combine: Callable[[Float32, Float32], Float32]) -> Float32:
    """Combined with the values of the three other threads of the row."""
    for distance in QUAD:
        value = combine(value, Float32(cute.arch.shuffle_sync_bfly(value, distance)))
    return value


def _gathered(values: Sequence[Float32], combine: Callable[[Float32, Float32], Float32]) -> Float32:
    chains = list(values[:CHAINS])
    for index, value in enumerate(values[CHAINS:]):
        chains[index % CHAINS] = combine(chains[index % CHAINS], value)
    return combine(chains[0], chains[1])


def new_maximum(plan: Plan, mods: Mods, s: Sequence[Float32], old: Float32, row: int) -> tuple[Float32, Float32, Float32]:
    """The row's maximum from now on, what is subtracted for it (`shift`), and the factor that brings earlier sums to it.

    With a threshold the old one stays, and the factor is 1, while the new one exceeds it by no more (log2 units). A NaN among the
    scores makes the maximum, and with it the row, NaN.
    """
    now = across_quad(f32.larger(old, _gathered(of_row(s, row), f32.larger)), f32.larger)
    if not plan.rescale_threshold:
        return now, shift(mods, now), _factor(mods, old, shift(mods, now))
    # All exponentials wait for this: behind the maximum one comparison and one choice. Where it is -inf, so was the old one.
    limit = scalar.plus_down(old, Float32(plan.rescale_threshold / mods.to_log2))
    stays, moved = now <= limit, f32.times(now, Float32(mods.to_log2))
    shifted = Float32(cutlass.select_(stays, shift(mods, old), moved))
    factor = cutlass.select_(stays, Float32(1.0), _factor(mods, old, moved))
    return Float32(cutlass.select_(stays, old, now)), shifted, Float32(factor)


def _factor(mods: Mods, old: Float32, shifted: Float32) -> Float32:
    return f32.exp2(scalar.minus(f32.times(old, Float32(mods.to_log2)), shifted))


@cute.jit
def scale_if_needed(kept: cute.Tensor, first: Float32, second: Float32):
    """Values in registers times their row's factor, unless no row of the warp needs it."""
    if cute.arch.vote_any_sync((first != Float32(1.0)) | (second != Float32(1.0))):
        keep(kept, scaled_rows(values(kept), [first, second]))


def shift(mods: Mods, row_max: Float32) -> Float32:
    """What is subtracted in log2 units: the maximum, or 0 for a row that has seen nothing (-inf - -inf is no number)."""
    return Float32(cutlass.select_(row_max == -Float32.inf, Float32(0.0), row_max * mods.to_log2))


def exponentials(
    plan: Plan, mods: Mods, s: Sequence[Float32], shifts: Sequence[Float32], part: range, o: Any = None
) -> list[Float32]:
    """exp2(S - row maximum), of some of the thread's values. shifts: of its rows."""
    factor, shifts = Float32(mods.to_log2), [-one for one in shifts]
    if o is not None:
        shifts = list(scalar.known_after(*shifts, o))
    # With a maximum, a NaN is in the shift, and so in every element.
    emulation = (
        scalar.Emulation(plan.exponential_degree, keeps_nan=mods.midpoint is not None) if plan.emulated_share else f32.exp2
    )
    found = []
    for index in part:
        of_its_row = index // 4 * 2 + index % 2  # both rows alike: bits must not depend on where in a tile a row is
        chosen: Any = emulation if is_emulated(of_its_row, plan.emulated_share) else f32.exp2
        found.append(chosen(scalar.fused(s[index], factor, shifts[row_of(index)])))
    return found


def sum_of_row(s: Sequence[Float32], row: int) -> Float32:
    """This thread's share of the row's sum."""
    return _gathered(of_row(s, row), scalar.plus)


def scaled_rows(values: Sequence[Float32], factors: Sequence[Any]) -> list[Float32]:
    """Values times their row's factor."""
    return [f32.times(value, factors[row_of(index)]) for index, value in enumerate(values)]
