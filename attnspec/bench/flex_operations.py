"""What emitted functions for FlexAttention call: the language's operations on tensors that torch traces, and on plain numbers.

Sizes are plain numbers in them, so that a condition on sizes alone is a plain bool, which torch.where and `~` do not take.
"""

import math
from typing import Any

import torch
from torch import Tensor


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`if_true if condition else if_false`"""
    return torch.where(condition, if_true, if_false) if isinstance(condition, Tensor) else if_true if condition else if_false


def invert(value: Any) -> Any:
    """`not`"""
    return ~value if isinstance(value, Tensor) else not value


def minimum(left: Any, right: Any) -> Any:
    """`min` of two"""
    return choose(left < right, left, right) if not both_tensors(left, right) else torch.minimum(left, right)


def maximum(left: Any, right: Any) -> Any:
    """`max` of two"""
    return choose(left > right, left, right) if not both_tensors(left, right) else torch.maximum(left, right)


def both_tensors(left: Any, right: Any) -> bool:
    """Whether torch's own functions take the two."""
    return isinstance(left, Tensor) and isinstance(right, Tensor)


def absolute(value: Any) -> Any:
    """`abs`"""
    return abs(value)


def to_float(value: Any) -> Any:
    """An int as a float"""
    return value.to(torch.float32) if isinstance(value, Tensor) else float(value)


def floor(value: Any) -> Any:
    """`floor`, to an int"""
    return torch.floor(value).to(torch.int32) if isinstance(value, Tensor) else math.floor(value)


def float_floor_divide(left: Any, right: Any) -> Any:
    """`//` of floats"""
    ratio = left / right
    return torch.floor(ratio) if isinstance(ratio, Tensor) else float(math.floor(ratio))


def exp(value: Any) -> Any:
    """`exp`"""
    return torch.exp(value) if isinstance(value, Tensor) else math.exp(value)


def exp2(value: Any) -> Any:
    """`exp2`"""
    return torch.exp2(value) if isinstance(value, Tensor) else 2.0**value


def log(value: Any) -> Any:
    """`log`"""
    return torch.log(value) if isinstance(value, Tensor) else math.log(value)


def tanh(value: Any) -> Any:
    """`tanh`"""
    return torch.tanh(value) if isinstance(value, Tensor) else math.tanh(value)


def sigmoid(value: Any) -> Any:
    """`sigmoid`"""
    return torch.sigmoid(value) if isinstance(value, Tensor) else 1.0 / (1.0 + math.exp(-value))


def sqrt(value: Any) -> Any:
    """`sqrt`"""
    return torch.sqrt(value) if isinstance(value, Tensor) else math.sqrt(value)


def rsqrt(value: Any) -> Any:
    """`rsqrt`"""
    return torch.rsqrt(value) if isinstance(value, Tensor) else 1.0 / math.sqrt(value)
