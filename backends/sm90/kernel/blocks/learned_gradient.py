"""Gradients of learned tensors: every element's share, summed first where it is the same place for all of a thread's steps.

| address                      | where the shares meet                              | adds to global memory   |
|------------------------------|----------------------------------------------------|-------------------------|
| scalar, head                 | a register, over all steps of a head; then the warp | one a warp and head     |
| key                          | a register a key, over all steps; then four lanes  | one a key and head      |
| distance                     | a warp, along the diagonals of its 16 keys; then   | one a diagonal and step, or |
|                              | all warps of the step (`blocks/strips.py`)         | one a step if all are of one place |
| distance, heads above 128    | a warp, along the diagonals of its 16 keys         | one a diagonal and warp |
| row                          | the warp, whose lanes end with two queries each    | one a query and warp    |
| element, scattered           | nowhere                                            | one an element          |
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles, LearnedRead
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.gradient_sums import add_unless_zero, with_warp
from attnspec.backends.cute.kernel.blocks.strips import strips_of
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks import diagonals, scalar
from attnspec.backends.sm90.kernel.blocks.gradient_step import Element, Values
from attnspec.backends.sm90.kernel.blocks.halving import share_out
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT, column_of, row_of
from attnspec.backends.sm90.kernel.blocks.tensor_core import BLOCK
from cutlass import Float32, Int32

WARP_WIDE, OF_KEY = ("scalar", "head"), "key"
OTHER_KEYS = (4, 8, 16)  # bits of a lane's number by which keys differ


def running_sums(mods: BackwardMods) -> Any:
    """Registers for the reads that gather in some, at 0: two each, one a key of the thread; None without such reads."""
    count = 2 * len(_gathering(mods))
    if not count:
        return None
    sums = cute.make_rmem_tensor(count, Float32)
    for index in range(count):
        sums[index] = Float32(0.0)
    return sums


def _gathering(mods: BackwardMods) -> list[LearnedRead]:
    return [read for read in mods.learned if read.address in (*WARP_WIDE, OF_KEY)]


def gather(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    mods: BackwardMods,
    staged: Any,
    sums: Any,
    ds: Values,
    raws: Values,
    element: Element,
) -> None:
    """Take in d(score) of a step, of a work tile's first part alone. raws: scores before the score statements.

    staged: where the step's strips are, if there are any.
    """
    if not isinstance(element.at.part, int):
        ds = [Float32(cutlass.select_(element.at.part == 0, value, Float32(0.0))) for value in ds]
    used = strip = 0
    for read in mods.learned:
        shares = _shares(read, ds, raws, element)
        if read.address in (*WARP_WIDE, OF_KEY):
            for row in range(2):
                sums[used + row] = sums[used + row] + _total([one for at, one in enumerate(shares) if row_of(at) == row])
            used += 2
        elif read.address == "distance" and plan.strips_stride:
            strips, warp = strips_of(plan), cute.arch.make_warp_uniform(cute.arch.warp_idx())
            diagonals.stage_diagonals(strips, staged + strips.offset(strip, warp, 0), shares)
            strip += 1
        elif read.address == "distance":
            # With dK and dV of wide heads there are registers for half of them.
            count = len(shares) // 2 if plan.dk_width > BLOCK else len(shares)
            diagonals.add_diagonals(getattr(tiles.sums, read.name), read, shares, element, count)
        elif read.address == "row":
            _add_rows(getattr(tiles.sums, read.name), read, shares, element)
        else:
            for index, share in enumerate(shares):
                row = row_of(index)
                place = read.indices(element.first_query + column_of(index), element.kv[row], element.at, element.key[row])
                add_unless_zero(getattr(tiles.sums, read.name), place, share)


def flush(tiles: BackwardTiles, mods: BackwardMods, sums: Any, element: Element) -> None:
    """Add what the registers hold of a head, and set them to 0."""
    for number, read in enumerate(_gathering(mods)):
        first, second = sums[2 * number], sums[2 * number + 1]
        tensor = getattr(tiles.sums, read.name)
        if read.address == OF_KEY:
            for row, value in enumerate((first, second)):
                place = read.indices(Int32(0), element.kv[row], element.at, element.key[row])
                add_unless_zero(tensor, place, value)
        else:
            place = read.indices(Int32(0), element.kv[0], element.at, element.key[0])
            with_warp(tensor, place, scalar.plus(first, second))
        sums[2 * number] = sums[2 * number + 1] = Float32(0.0)


def _shares(read: LearnedRead, ds: Values, raws: Values, element: Element) -> Values:
    """d(score) times the partial derivative; 0 where d(score) is 0, whatever the derivative."""
    element, found = element.renewed(), []
    for index, value in enumerate(ds):
        partial = element.each(read.partial, index, raws[index])
        if isinstance(partial, float):
            found.append(value if partial == 1.0 else f32.times(value, Float32(partial)))
        else:
            found.append(Float32(cutlass.select_(value == Float32(0.0), Float32(0.0), value * partial)))
    return found


def _add_rows(tensor: Any, read: LearnedRead, shares: Values, element: Element) -> None:
    """Sums over the warp's keys: those of the thread's two, then of lanes four apart."""
    both = [scalar.plus(share, shares[at + 2]) for at, share in enumerate(shares[:-2]) if row_of(at) == 0]
    own, first = share_out(both, OTHER_KEYS)
    for at, value in enumerate(own):
        place = first + at
        query = element.first_query + (place >> 1) * EIGHT + (place & 1)
        add_unless_zero(tensor, read.indices(query, element.kv[0], element.at, element.key[0]), value)


def _total(shares: Values) -> Float32:
    total = shares[0]
    for share in shares[1:]:
        total = scalar.plus(total, share)
    return total
