"""Where values belong in sorted tensors: sought by a warp together or by lanes, once a tile for all that ask."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.arithmetic import WORD, lone
from cutlass import Int32

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Sought:
    """A search of a warp: see `search`."""

    tensor: cute.Tensor
    prefix: tuple[Any, ...]
    value: Int32
    inclusive: bool

    @property
    def count(self) -> Int32:
        """Elements of the row."""
        return Int32(self.tensor.shape[len(self.prefix)])

    def is_before(self, place: Any) -> Any:
        """Whether an element comes before the place sought."""
        return _is_before(self.tensor, (*self.prefix, place), self.value, self.inclusive)


Places = dict[str, Int32]  # that have been found, by what was sought


@dataclass
class _Tile:
    """While tracing what a tile asks for. together: a warp searches together, all lanes for the same. places: that were found.

    asked: what it seeks, by its words, while nobody searches yet; else None. guesses: whether it was given a 0 for a place then.
    """

    together: bool
    places: Places
    asked: dict[str, _Sought] | None = None
    guesses: bool = False


_tile: ContextVar[_Tile | None] = ContextVar("tile", default=None)


def search(tensor: cute.Tensor, prefix: tuple[Any, ...], value: Any, side: str, words: str = "", *, waits: bool = False) -> Int32:
    """Elements of a sorted row that are below `value` (side "left") or at most `value` ("right").

    words: what is sought, by which a tile tells it from all else that it seeks (see `by_warp`); without, it is sought where it
    stands. waits: the value or the row is known only when another search has ended.
    """
    tile, sought = _tile.get(), _Sought(tensor, prefix, Int32(value), side == "right")
    if tile is None:
        return _search_alone(sought)
    if tile.asked is not None:
        if words and not waits:
            tile.asked.setdefault(words, sought)
        return _guess(tile)
    if words in tile.places:
        return tile.places[words]
    found = _search_together((sought,))[0] if tile.together else _search_alone(sought)
    if words:
        tile.places[words] = found
    return found


def search_within(
    tensor: cute.Tensor, prefix: tuple[Any, ...], value: Any, side: str, first: tuple[Any, Any], last: tuple[Any, Any]
) -> Int32:
    """The same, each lane for a value of its own. first, last: values that it lies between (inclusive), and their places.

    Where the value is one of them, as nearly all of a tile's are, nothing is read.
    """
    tile = _tile.get()
    if tile is not None and tile.asked is not None:
        return _guess(tile)
    return _search_within(_Sought(tensor, prefix, Int32(value), side == "right"), *map(Int32, (*first, *last)))


def by_warp(make: Callable[[], Result]) -> Result:
    """What `make` gives, its searches made by all lanes of a warp together, and all at once: a few loads one after another.

    `make` is traced twice: to hear what it searches for, and to be told what was found. It may do nothing but compute.
    """
    return seek_by_warp(make)[0]


def seek_by_warp(make: Callable[[], Result]) -> tuple[Result, Places]:
    """The same, and the places that were found, for others who ask for them again (see `told`)."""
    asking = _Tile(True, {}, {})
    result = _traced(make, asking)
    if not asking.guesses:
        return result, {}
    asked = asking.asked or {}
    tile = _Tile(True, dict(zip(asked, _search_together(tuple(asked.values())), strict=True)) if asked else {})
    return _traced(make, tile), tile.places


def seek(make: Callable[[], Any]) -> Places:
    """The places alone that `make` asks for at once, found by the warp."""
    asked = asked_by(make)
    return dict(zip(asked, _search_together(tuple(asked.values())), strict=True)) if asked else {}


def asked_by(make: Callable[[], Any]) -> dict[str, Any]:
    """What `make` asks for at once, by its words."""
    tile = _Tile(True, {}, {})
    _traced(make, tile)
    return tile.asked or {}


def seek_by_lane(make: Callable[[], Result]) -> tuple[Result, Places]:
    """As `seek_by_warp`; but each lane searches for itself, for one place after the other."""
    tile = _Tile(False, {})
    return _traced(make, tile), tile.places


def told(places: Places, make: Callable[[], Result]) -> Result:
    """What `make` gives, told of places that have been found; a warp searches together for others."""
    return _traced(make, _Tile(True, dict(places)))


def unsought(make: Callable[[], Result]) -> Result:
    """What `make` gives, all places 0, where what hangs on them is not used."""
    return _traced(make, _Tile(True, {}, {}))


def _guess(tile: _Tile) -> Int32:
    """A place that nobody uses."""
    tile.guesses = True
    return Int32(0)


def _traced(make: Callable[[], Result], tile: _Tile) -> Result:
    token = _tile.set(tile)
    try:
        return make()
    finally:
        _tile.reset(token)


def _is_before(tensor: cute.Tensor, place: tuple[Any, ...], value: Int32, inclusive: bool) -> Any:
    found = Int32(lone(tensor, place).load())
    return found <= value if inclusive else found < value


@cute.jit
def _search_together(sought: cutlass.Constexpr):
    """Each lane asks for the last element of a piece, a 32nd of the row: three loads, one after another, for 32,768 elements."""
    lane = cute.arch.lane_idx()
    firsts = tuple(Int32(0) for _ in sought)
    counts = tuple(one.count for one in sought)
    while _any(counts) > 0:
        pieces = [(count + (WORD - 1)) // WORD for count in counts]
        places = [first + (lane + 1) * piece - 1 for first, piece in zip(firsts, pieces, strict=True)]
        ends = [first + count for first, count in zip(firsts, counts, strict=True)]
        # All loads before the first vote, which they would wait for.
        are_before = [(at < end) & one.is_before(at) for one, at, end in zip(sought, places, ends, strict=True)]
        passed = [cute.arch.popc(cute.arch.vote_ballot_sync(one)) for one in are_before]
        firsts = tuple(first + past * piece for first, past, piece in zip(firsts, passed, pieces, strict=True))
        counts = tuple(
            cutlass.max(cutlass.min(piece - 1, end - first), Int32(0))
            for first, piece, end in zip(firsts, pieces, ends, strict=True)
        )
    return firsts


def _any(counts: tuple[Int32, ...]) -> Int32:
    """Positive if one of them is; none is negative."""
    return reduce(or_, counts)


@cute.jit
def _search_alone(sought: cutlass.Constexpr) -> Int32:
    """Binary search of the whole row."""
    return _bisect(sought, Int32(0), sought.count)


@cute.jit
def _bisect(sought: cutlass.Constexpr, first: Int32, last: Int32) -> Int32:
    while first < last:
        middle = (first + last) // 2
        is_before = sought.is_before(middle)
        first = Int32(cutlass.select_(is_before, middle + 1, first))
        last = Int32(cutlass.select_(is_before, last, middle))
    return first


@cute.jit
def _search_within(sought: cutlass.Constexpr, low_value: Int32, low: Int32, high_value: Int32, high: Int32) -> Int32:
    """Binary search between two places, of which each is the value's own if the values are equal."""
    first = Int32(cutlass.select_(sought.value == high_value, high, low))
    last = Int32(cutlass.select_(sought.value == low_value, low, high))
    return _bisect(sought, first, last)
