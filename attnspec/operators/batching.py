"""torch.vmap over the operators: one run an element, since a variant's own batch is a batch of sequences."""

from collections.abc import Callable
from typing import Any

import torch


def loop_over(operator: Any) -> Callable[..., Any]:
    """The rule of an operator: results of the elements, stacked in front."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        found = [run_one(operator, arguments, in_dims, index) for index in range(info.batch_size)]
        stacked = tuple(stack(parts) for parts in zip(*found, strict=True))
        return stacked, tuple([0] * len(one) if isinstance(one, list) else 0 for one in stacked)

    return rule


def run_one(operator: Any, arguments: tuple[Any, ...], in_dims: tuple[Any, ...], index: int) -> Any:
    """The operator on one element."""
    return operator(*(element(value, dim, index) for value, dim in zip(arguments, in_dims, strict=True)))


def element(value: Any, dim: Any, index: int) -> Any:
    """One element of an argument; the whole of one that is not batched."""
    if dim is None:
        return value
    if isinstance(value, list | tuple):
        return [element(one, axis, index) for one, axis in zip(value, dim, strict=True)]
    return value.select(dim, index)


def stack(parts: tuple[Any, ...]) -> Any:
    """Results of one place, a tensor or a list of them."""
    if isinstance(parts[0], list | tuple):
        return [torch.stack(one) for one in zip(*parts, strict=True)]
    return torch.stack(parts)
