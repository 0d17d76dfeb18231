"""Gradients of learned tensors: every element's share, summed first over the threads and steps that read one place.

| address            | where the shares meet                                   | adds to global memory        |
|--------------------|---------------------------------------------------------|------------------------------|
| scalar, head       | a register, over all steps of a head; then the warp     | one a warp and head          |
| key                | a register, over all steps of a head                    | one a thread and head        |
| row                | the warp, by halves, so that each lane ends with a row  | one a lane, 32 rows and warp |
| distance           | sums walk from lane to lane along the diagonals         | one a diagonal and warp      |
| element, scattered | nowhere                                                 | one an element               |

What is added to global memory comes in any order; where bits must not depend on it, sums are exact (`exact_sum`).
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles, Exact, LearnedRead
from attnspec.backends.cute.kernel.blocks.arithmetic import place
from attnspec.backends.cute.kernel.blocks.gradient_sums import add, from_lane, with_warp
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import gradient_step, tensor_memory
from cutlass import Float32, Int32

LANES = 32
IN_REGISTERS = ("scalar", "head", "key")  # addresses that stay the same over all steps of a head
Shares = list[Float32]


def running_sums(mods: BackwardMods) -> Any:
    """A register for each read that gathers in one, at 0; None without such reads."""
    count = len(_gathering(mods))
    if not count:
        return None
    sums = cute.make_rmem_tensor(count, Float32)
    for index in range(count):
        sums[index] = Float32(0.0)
    return sums


def _gathering(mods: BackwardMods) -> list[LearnedRead]:
    """Reads whose shares meet in a register: over all steps of a head, or on a diagonal of a step."""
    return [read for read in mods.learned if read.address in (*IN_REGISTERS, "distance")]


def gather(tiles: BackwardTiles, mods: BackwardMods, sums: Any, ds: Shares, s: Shares | None, element: Any) -> None:
    """Take in d(score) of a chunk of queries. s: scores before the score statements, where a partial derivative names them.

    What a read by distance has under way goes on to the next chunk. Of a work tile that is done in parts the first counts.
    """
    if not isinstance(element.at.part, int):
        ds = [_pick(element.at.part == 0, value, Float32(0.0)) for value in ds]
    used = 0
    for read in mods.learned:
        shares = _shares(read, ds, s, element)
        if read.address in IN_REGISTERS:
            sums[used] = sums[used] + _total(shares)
        elif read.address == "distance":
            sums[used] = _walk_diagonals(tiles, read, shares, sums[used], element)
        elif read.address == "row":
            _add_rows(tiles, read, shares, element)
        else:
            for index, share in enumerate(shares):
                _add(tiles, read, element.first_query + index, element, share)
        used += read.address in (*IN_REGISTERS, "distance")


@cute.jit
def gather_in_loop(
    plan: BackwardPlan, tiles: BackwardTiles, mods: BackwardMods, sums: Any, address: Int32, element: gradient_step.Element
):
    """Take in d(score) of a step from tensor memory, a chunk at a time: with all at hand, its addresses and loads would spill."""
    tensor_memory.wait_stores()
    for first in cutlass.range(0, plan.half, gradient_step.LOOP_CHUNK, unroll=1):
        place = plan.query(first)
        ds = gradient_step.load_column(address + place, gradient_step.LOOP_CHUNK)
        gather(tiles, mods, sums, ds, None, gradient_step.moved(element, place))


def end_diagonals(tiles: BackwardTiles, mods: BackwardMods, sums: Any, element: Any) -> None:
    """The sums still under way after the last queries of a step: each lane adds its own. element: behind the last query."""
    for index, read in enumerate(_gathering(mods)):
        if read.address == "distance":
            _add(tiles, read, element.first_query - 1, element, sums[index])
            sums[index] = Float32(0.0)


def flush(tiles: BackwardTiles, mods: BackwardMods, sums: Any, element: Any) -> None:
    """Add what the registers hold of a head, and set them to 0."""
    for index, read in enumerate(_gathering(mods)):
        if read.address == "key":
            _add(tiles, read, Int32(0), element, sums[index])
        elif read.address in IN_REGISTERS:
            with_warp(getattr(tiles.sums, read.name), _indices(read, Int32(0), element), sums[index])
        sums[index] = Float32(0.0)


def _shares(read: LearnedRead, ds: Shares, s: Shares | None, element: Any) -> Shares:
    """d(score) times the partial derivative, of each query; 0 where d(score) is 0, whatever the derivative."""
    found = []
    for index, value in enumerate(ds):
        score = Float32(0.0) if s is None else s[index]
        partial = read.partial(score, element.first_query + index, element.kv, element.at, element.key)
        if isinstance(partial, float):
            found.append(value if partial == 1.0 else value * partial)
        else:
            found.append(Float32(cutlass.select_(value == Float32(0.0), Float32(0.0), value * partial)))
    return found


def _total(shares: Shares) -> Float32:
    parts = list(shares)
    while len(parts) > 1:
        parts = [parts[at] + parts[at + 1] for at in range(0, len(parts), 2)]
    return parts[0]


def _indices(read: LearnedRead, q: Any, element: Any) -> tuple[Any, ...]:
    return read.indices(q, element.kv, element.at, element.key)


def _add(tiles: BackwardTiles, read: LearnedRead, q: Any, element: Any, value: Float32) -> None:
    add(getattr(tiles.sums, read.name), _indices(read, q, element), value)


def _add_rows(tiles: BackwardTiles, read: LearnedRead, shares: Shares, element: Any) -> None:
    """Sum over the lanes of a warp, which are keys: halving the queries while doubling the lanes, lane i ends with query i."""
    lane = cute.arch.lane_idx()
    width = LANES // 2
    values = shares
    if len(shares) == width:  # lanes 16 to 31 end with the same sums as 0 to 15
        values = [_pick(lane < width, value + from_lane(value, width), Float32(0.0)) for value in shares]
        lane, width = lane & (width - 1), width // 2
    while width:
        is_upper = (lane & width) != 0
        kept = [_pick(is_upper, values[at + width], values[at]) for at in range(width)]
        sent = [_pick(is_upper, values[at], values[at + width]) for at in range(width)]
        values = [one + from_lane(other, width) for one, other in zip(kept, sent, strict=True)]
        width //= 2
    _add(tiles, read, element.first_query + lane, element, values[0])


def _pick(condition: Any, if_true: Float32, if_false: Float32) -> Float32:
    return Float32(cutlass.select_(condition, if_true, if_false))


def _walk_diagonals(tiles: BackwardTiles, read: LearnedRead, shares: Shares, under_way: Float32, element: Any) -> Float32:
    """Sums along q - kv. From a query to the next a diagonal moves up by one lane; lane 31 has its end, and adds it.

    under_way: what the diagonals at lanes 0 to 31 have gathered; gives the same after the last query.
    """
    lane, tensor = cute.arch.lane_idx(), getattr(tiles.sums, read.name)
    for index, share in enumerate(shares):
        moved = ptx("shfl.sync.up.b32 {$w0}, {$r0}, 1, 0, 0xffffffff;", under_way, returns=[Float32])
        under_way = _pick(lane == 0, share, moved + share)
        indices = _indices(read, element.first_query + index, element)
        if isinstance(tensor, Exact):
            add(tensor, indices, _pick(lane == LANES - 1, under_way, Float32(0.0)))
        else:
            text = "{.reg .pred p; setp.eq.s32 p, {$r2}, 31; @p red.global.add.f32 [{$r0}], {$r1};}"
            ptx(text, place(tensor, indices).toint(), under_way, lane)
    return _pick(lane == LANES - 1, Float32(0.0), under_way)
