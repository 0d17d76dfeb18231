"""The language's arithmetic on scalars of the DSL, where the DSL's own differs or has no name for it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Boolean, Float32, Int32, Int64, Uint32

LOG2_E = math.log2(math.e)
WORD = 32  # keys in a mask word
Result = TypeVar("Result")


def remainder(left: Any, right: Any) -> Any:
    """Floor modulus; the DSL's `%` keeps the sign of the dividend."""
    if isinstance(right, int) and right > 0 and right & (right - 1) == 0:
        return left & (right - 1)
    return left - (left // right) * right


def divide(left: Any, right: Any) -> Float32:
    """Quotient; by a constant, a product with its reciprocal (a rounding more, an eighth of the instructions)."""
    if isinstance(right, int | float):
        return Float32(left) * (1.0 / float(right))
    return Float32(left) / Float32(right)


def float_floor_divide(left: Any, right: Any) -> Float32:
    """Quotient rounded down, as a float."""
    return cute.math.floor(Float32(left) / Float32(right))


def float_remainder(left: Any, right: Any) -> Float32:
    """Floor modulus of floats."""
    return Float32(left) - float_floor_divide(left, right) * Float32(right)


def minimum(left: Any, right: Any) -> Any:
    """Smaller of two ints or floats; NaN if either is."""
    if isinstance(left, Float32) or isinstance(right, Float32):
        return cute.arch.fmin(left, right, nan=True)
    return cutlass.min(left, right)


def maximum(left: Any, right: Any) -> Any:
    """Larger of two ints or floats; NaN if either is."""
    if isinstance(left, Float32) or isinstance(right, Float32):
        return cute.arch.fmax(left, right, nan=True)
    return cutlass.max(left, right)


def absolute(value: Any) -> Any:
    """Absolute value of an int or a float."""
    if isinstance(value, Float32):
        return cute.math.absf(value)
    return cutlass.max(value, -value)


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    """One of two values of one kind; both have been computed."""
    if isinstance(condition, bool):
        return if_true if condition else if_false
    kind = next((type(value) for value in (if_true, if_false) if isinstance(value, Float32 | Int32 | Boolean)), None)
    if kind is None:
        kind = {bool: Boolean, int: Int32, float: Float32}[type(if_true)]
    return kind(cutlass.select_(Boolean(condition), kind(if_true), kind(if_false)))


def invert(value: Any) -> Any:
    """Logical not."""
    return not value if isinstance(value, bool) else Boolean(value) == Boolean(False)


def both(left: Any, right: Any) -> Any:
    """Logical and; both have been computed."""
    return Boolean(left) & Boolean(right)


def either(left: Any, right: Any) -> Any:
    """Logical or; both have been computed."""
    return Boolean(left) | Boolean(right)


def to_float(value: Any) -> Float32:
    """An int as a float."""
    return Float32(Int32(value))


def floor(value: Any) -> Int32:
    """Largest int not above; saturates, NaN gives 0 (PTX ISA, cvt.rmi.s32.f32)."""
    return Int32(cute.math.floor(Float32(value)))


def exp(value: Any) -> Float32:
    """e^x by ex2.approx."""
    return cute.math.exp2(Float32(value) * LOG2_E, fastmath=True)


def exp2(value: Any) -> Float32:
    """2^x by ex2.approx."""
    return cute.math.exp2(Float32(value), fastmath=True)


def log(value: Any) -> Float32:
    """Natural logarithm by lg2.approx."""
    return cute.math.log(Float32(value), fastmath=True)


def tanh(value: Any) -> Float32:
    """Hyperbolic tangent by tanh.approx, relative error below 2^-11 (PTX ISA)."""
    return cute.math.tanh(Float32(value), fastmath=True)


def sigmoid(value: Any) -> Float32:
    """Logistic function, (1 + tanh(x / 2)) / 2."""
    return tanh(Float32(value) * 0.5) * 0.5 + 0.5


def sqrt(value: Any) -> Float32:
    """Square root."""
    return cute.math.sqrt(Float32(value), fastmath=True)


def rsqrt(value: Any) -> Float32:
    """Reciprocal square root by rsqrt.approx."""
    return cute.math.rsqrt(Float32(value), fastmath=True)


def read(tensor: cute.Tensor, *indices: Any) -> Any:
    """An element of a variant's tensor as float or int.

    Rows and keys of a tile that lie beyond the sequence read the last element: what they give is masked or never stored.
    """
    value = place(tensor, indices).load()
    return Float32(value) if tensor.element_type.is_float else Int32(value)


_holds_rows: ContextVar[bool] = ContextVar("rows", default=False)


def place(tensor: cute.Tensor, indices: tuple[Any, ...]) -> cute.Pointer:
    """Pointer to an element of a variant's tensor; indices are kept inside it, the address is 64-bit."""
    offset: Any = Int64(0)
    pointer = tensor.iterator
    for axis, index in enumerate(indices):
        inside = cutlass.max(cutlass.min(Int32(index), tensor.shape[axis] - 1), Int32(0))
        offset = offset + Int64(inside) * Int64(tensor.stride[axis])
        if _holds_rows.get():
            pointer, offset = pointer + offset, Int64(0)
    return pointer if _holds_rows.get() else pointer + offset


@contextmanager
def holding_rows() -> Iterator[None]:
    """While tracing, addresses are made axis by axis: what outer axes add is worked out once for many elements, and held."""
    token = _holds_rows.set(True)
    try:
        yield
    finally:
        _holds_rows.reset(token)


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
    found = read(tensor, *place)
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


@dataclass(frozen=True)
class Bits:
    """Which key each bit of a mask word stands for: `run` at a time of every `stride`. count: bits that are wanted."""

    run: int = WORD
    stride: int = WORD
    count: int = WORD

    def place(self, bit: int) -> int:
        """The key of a bit, from the word's first on."""
        return bit // self.run * self.stride + bit % self.run

    def below(self, keys: Int32) -> Int32:
        """How many bits stand for one of so many keys."""
        if self.run == self.stride:
            return keys
        whole, rest = Uint32(keys) // Uint32(self.stride), Uint32(keys) % Uint32(self.stride)
        return Int32(whole * Uint32(self.run)) + cutlass.min(Int32(rest), self.run)


NEXT = Bits()  # 32 keys in a row
_bits: ContextVar[Bits] = ContextVar("bits", default=NEXT)


@contextmanager
def asking(bits: Bits) -> Iterator[None]:
    """While tracing, words have these bits; those of others cost nothing, and read nothing."""
    token = _bits.set(bits)
    try:
        yield
    finally:
        _bits.reset(token)


def keys_below(bound: Any, first: Any) -> Uint32:
    """Word of the keys from `first` on that are below `bound`: 32 of them, or those that are asked for."""
    count = _bits.get().below(cutlass.max(Int32(bound) - first, 0))
    # A shift by 32 or more gives 0 in PTX (shl.b32 clamps), where LLVM's own leaves the result open.
    return ~ptx("shl.b32 {$w0}, {$r0}, {$r1};", Uint32(0xFFFFFFFF), Uint32(count), returns=[Uint32])


def keys_at(place: Any, first: Any) -> Uint32:
    """Word of the one key at `place`, if it is among them."""
    return keys_below(Int32(place) + 1, first) & ~keys_below(place, first)


def all_keys(condition: Any) -> Uint32:
    """Word of all keys, or of none."""
    return Uint32(choose(condition, -1, 0))


def keys_where(condition: Any, first: Any, staged: Any = None) -> Uint32:
    """Word of the keys for which a function of the key's position, and of its staged values if there are any, holds."""
    word, bits = Uint32(0), _bits.get()
    for bit in range(bits.count):
        place = bits.place(bit)
        near = () if staged is None else (staged.at(place),)
        word = word | Uint32(choose(condition(first + place, *near), 1 << bit, 0))
    return word
