"""What the language's operations mean in torch: the functions that emitted expressions call.

Operands broadcast over (heads, query, kv) and may be Python numbers. Ints are int32 and floats f32; nothing raises on data.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Value = Tensor | int | float | bool
DTYPES = {bool: torch.bool, int: torch.int32, float: torch.float32}
INF = float("inf")
TRUE, FALSE = torch.tensor(True), torch.tensor(False)


def tensor(value: Value) -> Tensor:
    """The value as a tensor of the language's kind."""
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=DTYPES[type(value)])


def to_float(value: Value) -> Tensor:
    """An int as f32."""
    return tensor(value).to(torch.float32)


def zeros(*shape: int) -> Tensor:
    """Zeros in f32, whatever type and device torch makes tensors of by default."""
    return torch.zeros(shape, dtype=torch.float32, device="cpu")


def spread(value: Value, like: Tensor) -> Tensor:
    """The value at every element of another tensor."""
    return tensor(value).expand(like.shape).contiguous()


def minimum(left: Value, right: Value) -> Tensor:
    """The smaller; NaN if either is."""
    return torch.minimum(tensor(left), tensor(right))


def maximum(left: Value, right: Value) -> Tensor:
    """The larger; NaN if either is."""
    return torch.maximum(tensor(left), tensor(right))


def absolute(value: Value) -> Tensor:
    """Magnitude, of the same kind."""
    return torch.abs(tensor(value))


def floor(value: Value) -> Tensor:
    """The int at or below; saturates, and NaN gives 0."""
    whole = torch.floor(tensor(value).double()).nan_to_num(nan=0.0)
    return whole.clamp(-(2**31), 2**31 - 1).to(torch.int32)


def floor_divide(left: Value, right: Value) -> Tensor:
    """Integer quotient rounded down; 0 where the divisor is 0."""
    by = tensor(right)
    return torch.where(by == 0, 0, torch.div(tensor(left), torch.where(by == 0, 1, by), rounding_mode="floor"))


def remainder(left: Value, right: Value) -> Tensor:
    """What `floor_divide` leaves, of the divisor's sign; 0 where the divisor is 0."""
    by = tensor(right)
    return torch.where(by == 0, 0, torch.remainder(tensor(left), torch.where(by == 0, 1, by)))


def float_floor_divide(left: Value, right: Value) -> Tensor:
    """Float quotient rounded down."""
    return torch.floor_divide(tensor(left), tensor(right))


def float_remainder(left: Value, right: Value) -> Tensor:
    """What `float_floor_divide` leaves, of the divisor's sign."""
    return torch.remainder(tensor(left), tensor(right))


def shift_left(left: Value, right: Value) -> Tensor:
    """Left shift in 32 bits; by 32 or more, or by a negative amount, gives 0."""
    amount = tensor(right)
    inside = (amount >= 0) & (amount < 32)
    return torch.where(inside, torch.bitwise_left_shift(tensor(left), torch.where(inside, amount, 0)), 0)


def shift_right(left: Value, right: Value) -> Tensor:
    """Arithmetic right shift; by 32 or more, or by a negative amount, leaves the sign alone."""
    amount = tensor(right)
    return torch.bitwise_right_shift(tensor(left), torch.where((amount >= 0) & (amount < 32), amount, 31))


def choose(condition: Value, if_true: Value, if_false: Value) -> Tensor:
    """One value or the other."""
    return torch.where(tensor(condition), tensor(if_true), tensor(if_false))


def invert(value: Value) -> Tensor:
    """True where the value is false."""
    return torch.logical_not(tensor(value))


def exp(value: Value) -> Tensor:
    """e to the value."""
    return torch.exp(tensor(value))


def exp2(value: Value) -> Tensor:
    """2 to the value."""
    return torch.exp2(tensor(value))


def log(value: Value) -> Tensor:
    """Natural logarithm."""
    return torch.log(tensor(value))


def tanh(value: Value) -> Tensor:
    """Hyperbolic tangent."""
    return torch.tanh(tensor(value))


def sigmoid(value: Value) -> Tensor:
    """1 / (1 + exp(-value))."""
    return torch.sigmoid(tensor(value))


def sqrt(value: Value) -> Tensor:
    """Square root."""
    return torch.sqrt(tensor(value))


def rsqrt(value: Value) -> Tensor:
    """1 / sqrt(value)."""
    return torch.rsqrt(tensor(value))


def read(array: Tensor, *indices: Value) -> Tensor:
    """Elements of a tensor as the language's kind; an index outside the extent reads the nearest end, never past it.

    A tensor of no elements reads as 0: a length of it is 0, so the value reaches no pair.
    """
    if array.numel() == 0:
        found = torch.zeros(shape_of(indices), dtype=array.dtype)
    else:
        found = array[clamped(array.shape, indices)] if indices else array
    return found.to(torch.float32) if found.is_floating_point() else found


def add_at(total: Tensor, indices: tuple[Value, ...], slope: Tensor) -> None:
    """Add each pair's slope to the element that the pair read; `total` is f64, the order of addition is fixed.

    Pairs that read one element because an index does not vary along an axis are summed first.
    """
    if total.numel() == 0:
        return
    where = torch.broadcast_tensors(*clamped(total.shape, indices)) if indices else (torch.zeros((), dtype=torch.int64),)
    flat = where[0]
    for index, extent in zip(where[1:], total.shape[1:], strict=True):
        flat = flat * extent + index
    flat = flat.reshape((1,) * (slope.dim() - flat.dim()) + flat.shape)
    shared = [axis for axis in range(slope.dim()) if flat.shape[axis] == 1 and slope.shape[axis] > 1]
    summed = slope.double().sum(shared, keepdim=True) if shared else slope.double()
    total.view(-1).index_add_(0, flat.expand(summed.shape).reshape(-1), summed.reshape(-1))


def shape_of(indices: Sequence[Value]) -> torch.Size:
    """The shape that indices broadcast to."""
    return torch.broadcast_shapes(*(tensor(index).shape for index in indices))


def clamped(shape: Sequence[int], indices: Sequence[Value]) -> tuple[Tensor, ...]:
    """Indices inside the extents, as int64."""
    return tuple(tensor(index).to(torch.int64).clamp(0, max(extent - 1, 0)) for index, extent in zip(indices, shape, strict=True))


def search(array: Tensor, prefix: tuple[Value, ...], value: Value, side: str) -> Tensor:
    """Where a value belongs in the last axis of a sorted tensor, as numpy.searchsorted."""
    wanted = tensor(value)
    if array.numel() == 0:
        return torch.zeros(shape_of((wanted, *prefix)), dtype=torch.int64)
    rows = array[clamped(array.shape[:-1], prefix)] if prefix else array
    if rows.dim() == 1:
        return torch.searchsorted(rows, wanted.contiguous(), right=side == "right")
    shape = torch.broadcast_shapes(rows.shape[:-1], wanted.shape)
    rows = rows.expand(*shape, rows.shape[-1]).contiguous()
    return torch.searchsorted(rows, wanted.expand(shape)[..., None].contiguous(), right=side == "right")[..., 0]
