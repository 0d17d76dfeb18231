"""The language's arithmetic on scalars of the DSL, where the DSL's own differs or has no name for it."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.conversion import absolute as absolute
from attnspec.backends.cute.kernel.blocks.conversion import to_float as to_float
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Boolean, Float32, Int32, Int64, Uint32

LOG2_E = math.log2(math.e)
WORD = 32  # keys in a mask word


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


def within(value: Any, last: int) -> Int32:
    """The int, but 0 where it is negative, and at most `last`."""
    # ptxas makes one VIADDMNMX.RELU of it, with what was added before, if the bound is in a register; a number it would move to
    # one each time. It does not know that lanes have no bit 5.
    text = f"{{.reg .b32 m; shr.u32 m, {{$r1}}, 5; add.s32 m, m, {last}; min.s32 m, m, {{$r0}}; max.s32 {{$w0}}, m, 0;}}"
    return ptx(text, Int32(value), cute.arch.lane_idx(), returns=[Int32])


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


@dataclass(frozen=True)
class Inside:
    """An index that the compiler proved to be inside its axis (`lowering.indices`)."""

    index: Any


def inside(index: Any) -> Inside:
    """The index, which is taken as it is."""
    return Inside(index)


def place(tensor: cute.Tensor, indices: tuple[Any, ...]) -> cute.Pointer:
    """Pointer to an element of a variant's tensor; indices are kept inside it, the address is 64-bit.

    What outer axes add is a pointer of its own, worked out once for all elements of a row. The last axis has stride 1.
    """
    *outer, last = (Int64(_kept(index, tensor.shape[axis])) for axis, index in enumerate(indices))
    return (tensor.iterator + _offset(tensor, outer) if outer else tensor.iterator) + last * Int64(tensor.stride[len(outer)])


def lone(tensor: cute.Tensor, indices: tuple[Any, ...]) -> cute.Pointer:
    """The same for one element alone: a pointer to its row would be a register pair more (searches in 128 registers spill)."""
    inside = (Int64(_kept(index, tensor.shape[axis])) for axis, index in enumerate(indices))
    return tensor.iterator + _offset(tensor, inside)


def _offset(tensor: cute.Tensor, indices: Iterable[Int64]) -> Int64:
    """Elements from the first to that at these indices, of as many axes."""
    offset = Int64(0)
    for axis, index in enumerate(indices):
        offset = offset + index * Int64(tensor.stride[axis])
    return offset


def _kept(index: Any, size: Any) -> Int32:
    """The index, within an axis of a size."""
    if isinstance(index, Inside):
        return Int32(index.index)
    return cutlass.max(cutlass.min(Int32(index), size - 1), Int32(0))


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
