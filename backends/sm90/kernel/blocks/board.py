"""Where the loading warp leaves what it finds of a tile's walk, for those who attend to the tile.

A search in a sorted tensor is some loads one after another, 2,000 cycles, beside which a warp that attends has nothing to do. The
loading warp must search too, and does so while the tile before is worked on. Two slots, each with a barrier that is full when
places are there and one that is empty when all warps have read them.
"""

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.seeking import Places, asked_by
from attnspec.backends.cute.kernel.bundles import Tiles
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS, Plan
from cutlass import Int32, Int64

SLOTS, WORD_BYTES, WARP = 2, 4, 32


def init(plan: Plan, starts: Any) -> None:
    """Initialise the barriers; one thread calls this, before any other thread touches one."""
    for slot in range(SLOTS):
        cute.arch.mbarrier_init(_barriers(plan, starts) + slot, 1)
        cute.arch.mbarrier_init(_barriers(plan, starts) + (SLOTS + slot), plan.warpgroups * GROUP_THREADS // WARP)


def post(plan: Plan, tiles: Tiles, visited: Int32, places: Places) -> None:
    """Leave the places of the CTA's tile number `visited`; one warp calls this."""
    assert len(places) == plan.board_places
    slot, lane = visited & 1, cute.arch.lane_idx()
    _, *others = found = [places[words] for words in sorted(places)]
    mine = found[0]
    for number, place in enumerate(others, 1):
        mine = Int32(cutlass.select_(lane == number, place, mine))
    barriers = _barriers(plan, tiles.starts)
    cute.arch.mbarrier_wait(barriers + SLOTS + slot, (visited >> 1) & 1 ^ 1)
    # Lanes beyond the last place write the last one's place again, which is theirs too: no branch.
    last = plan.board_places - 1
    value = Int32(cutlass.select_(lane < last, mine, found[last]))
    address = _words(plan, tiles, slot) + cutlass.min(lane, last) * WORD_BYTES
    ptx("st.shared.b32 [{$r0}], {$r1};", address, value)
    cute.arch.sync_warp()
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive(barriers + slot)


def read(plan: Plan, tiles: Tiles, visited: Int32, make: Callable[[], Any]) -> Places:
    """The places that `make` asks for, of the CTA's tile number `visited`; each warp that attends calls this, once a tile."""
    asked, slot = sorted(asked_by(make)), visited & 1
    assert len(asked) == plan.board_places
    barriers = _barriers(plan, tiles.starts)
    cute.arch.mbarrier_wait(barriers + slot, (visited >> 1) & 1)
    address = _words(plan, tiles, slot)
    load = "ld.shared.b32 {{$w0}}, [{{$r0}}+{}];"
    found = {words: ptx(load.format(at * WORD_BYTES), address, returns=[Int32]) for at, words in enumerate(asked)}
    cute.arch.sync_warp()
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive(barriers + SLOTS + slot)
    return found


def _barriers(plan: Plan, starts: Any) -> Any:
    """Those that are full, then those that are empty. starts: see `Tiles`, a place in shared memory like any other."""
    return cute.recast_ptr(starts + (plan.board_offset - plan.starts_offset) // WORD_BYTES, dtype=Int64)


def _words(plan: Plan, tiles: Tiles, slot: Int32) -> Int32:
    """Address of a slot's places."""
    stride = -(-plan.board_places // 2) * 2 * WORD_BYTES
    return Int32(tiles.shared + (plan.board_offset + 2 * SLOTS * 8) + slot * stride)
