"""Hand-overs of single lanes in a role whose warps know their lane only at run time.

Where every lane has one to do, as with a value that goes round from lane to lane, each looks up the barrier of its own and all
run the same code; else there is a branch for each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.fences import fence
from cutlass import Int32


@dataclass(frozen=True)
class Single:
    """What lane `only` waits for or signals: the barrier of that index. how: the fence of a wait, or the kind of a signal."""

    only: int
    index: Any
    parity: Any
    how: Any


def wait_for_lanes(barriers: Any, lane: Any, singles: Sequence[Single]) -> None:
    """Wait for what is this lane's."""
    if _are_alike(singles):
        cute.arch.mbarrier_wait(barriers + _own(lane, singles, "index"), _own(lane, singles, "parity"))
        fence("after_wait", singles[0].how)
        return
    for single in singles:
        _wait_if(lane, single.only, barriers + single.index, single.parity, single.how)


def signal_for_lanes(barriers: Any, lane: Any, singles: Sequence[Single], signal: Callable[..., None]) -> None:
    """Signal what is this lane's. signal: by its kind, at a barrier."""
    if _are_alike(singles):
        signal(*singles[0].how, barriers + _own(lane, singles, "index"))
        return
    for single in singles:
        _signal_if(lane, single.only, single.how, barriers + single.index, signal)


def _are_alike(singles: Sequence[Single]) -> bool:
    """Whether every lane has one, of one kind."""
    lanes = sorted(single.only for single in singles)
    return len(lanes) > 1 and lanes == list(range(len(lanes))) and len({single.how for single in singles}) == 1


def _own(lane: Any, singles: Sequence[Single], what: str) -> Int32:
    """The number of this lane's, by its lane."""
    found, *others = sorted(singles, key=lambda single: single.only)
    chosen = Int32(getattr(found, what))
    for single in others:
        chosen = Int32(cutlass.select_(lane == single.only, Int32(getattr(single, what)), chosen))
    return chosen


@cute.jit
def _wait_if(lane: Int32, only: cutlass.Constexpr, pointer: cute.Pointer, parity: Int32, kind: cutlass.Constexpr):
    if lane == only:
        cute.arch.mbarrier_wait(pointer, parity)
        fence("after_wait", kind)


@cute.jit
def _signal_if(lane: Int32, only: cutlass.Constexpr, how: cutlass.Constexpr, pointer: cute.Pointer, signal: cutlass.Constexpr):
    if lane == only:
        signal(*how, pointer)
