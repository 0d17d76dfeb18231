"""One order for all that is added to the dQ of a query tile: key tile after key tile, in the order in which CTAs start them.

`turns` has a word for each query tile of each head: 0, or 1 + the number of the key tile that was added last. (Where CTAs share a
work tile, its keys are one key tile here, and each has a word for its share of the queries.) A key tile that
meets a query tile waits until the word names its predecessor there, the nearest that started before it and meets the query tile
too, by the very walk that all of them take. What skips a query tile is no predecessor, and leaves no hole.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.plan import Widths
from attnspec.backends.cute.kernel.query_walk import KeyAt, moved_to, walk_of
from attnspec.backends.cute.kernel.work import Steps
from cutlass import Boolean, Int32, Int64

LANES = 32


def number_of(plan: Widths, at: KeyAt) -> Any:
    """Number of a key tile among those of its sequence."""
    return at.key // plan.work_keys


def near(plan: Widths, mods: BackwardMods, at: KeyAt, passed: Any) -> Steps:
    """Query tiles that a key tile before this one meets, another in each lane: the nearest but `passed` in lane 0.

    Before a key tile come those of lower numbers, of higher ones where the last keys are started first.
    """
    distance = passed + 1 + cute.arch.lane_idx()
    number = number_of(plan, at) + (distance if plan.last_first else -distance)
    tiles = (at.sequence.keys + (plan.work_keys - 1)) // plan.work_keys
    exists = (number >= 0) & (number < tiles)
    inside = cutlass.max(cutlass.min(number, tiles - 1), Int32(0))
    run = walk_of(plan, mods, moved_to(plan, at, inside * plan.work_keys))
    lengths = tuple(Int32(cutlass.select_(exists, length, Int32(0))) for length in run.lengths)
    return Steps(run.trips, run.starts, lengths)


@cute.jit
def predecessor(plan: Widths, mods: BackwardMods, at: KeyAt, nearest: Steps, query: Int32):
    """1 + the number of the key tile that is added to a query tile right before this one; 0 if this one is the first.

    nearest: `near` with nothing passed.
    """
    number, tiles = number_of(plan, at), (at.sequence.keys + (plan.work_keys - 1)) // plan.work_keys
    before = tiles - 1 - number if cutlass.const_expr(plan.last_first) else number
    lane = _first_lane(_meets(nearest, query))
    passed = Int32(0)
    while (lane == LANES) & (passed + LANES < before):
        passed += LANES
        lane = _first_lane(_meets(near(plan, mods, at, passed), query))
    distance = passed + lane + 1
    found = number + distance if cutlass.const_expr(plan.last_first) else number - distance
    return Int32(cutlass.select_(lane == LANES, Int32(0), found + 1))


def _meets(run: Steps, query: Any) -> Any:
    found: Any = Boolean(False)
    for start, length in zip(run.starts, run.lengths, strict=True):
        found = found | ((query >= start) & (query < start + length))
    return found


def _first_lane(is_there: Any) -> Int32:
    """The lowest lane in which it holds, 32 if there is none."""
    vote = "setp.ne.b32 p, {$r0}, 0; vote.sync.ballot.b32 w, p, 0xffffffff;"
    text = f"{{.reg .pred p; .reg .b32 w; {vote} brev.b32 w, w; clz.b32 {{$w0}}, w;}}"
    return ptx(text, Int32(is_there), returns=[Int32])


@cute.jit
def await_turn(word: Int64, wanted: Int32):
    """Until the word holds that number, and what was added before it is there for the asynchronous proxy too."""
    found = _read(word)
    while found != wanted:
        found = _read(word)
    cute.arch.sync_warp()
    ptx("fence.proxy.async.global;")


def _read(word: Int64) -> Int32:
    return ptx("ld.acquire.gpu.global.b32 {$w0}, [{$r0}];", word, returns=[Int32])


def end_turn(word: Int64, own: Any) -> None:
    """Write the number, when all that this warp has added so far has been written."""
    cute.arch.cp_async_bulk_wait_group(0)
    with cute.arch.elect_one():
        ptx("st.release.gpu.global.b32 [{$r0}], {$r1};", word, Int32(own))
