"""Calls of torch as its modes see them: carried out where they tell of a tensor or make one of numbers, else traced."""

from typing import Any

import torch

from attnspec.flex.chance import is_random, refuse_random
from attnspec.flex.operations import operate
from attnspec.flex.refuse import refuse
from attnspec.flex.trace import Trace
from attnspec.flex.traced import Traced

MAKERS = ("tensor", "scalar_tensor", "as_tensor", "full", "zeros", "ones", "arange", "linspace", "eye", "device", "Size")


def call(trace: Trace, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A function of torch: carried out where it only tells of a tensor or makes one of numbers, else traced."""
    name = getattr(func, "__name__", str(func))
    tensors = [value for value in _flat((args, kwargs)) if isinstance(value, torch.Tensor | Traced)]
    if is_random(name) and not trace.is_busy:
        refuse_random(name)
    is_of_numbers = all(id(value) in trace.made for value in tensors)
    if trace.is_busy or name in ("__get__", "dim", "size", "numel", "is_floating_point", "__len__", "stride", "__hash__"):
        return func(*args, **kwargs)
    if is_of_numbers or (name in MAKERS and not any(isinstance(value, Traced) for value in tensors)):
        return _made(trace, func, args, kwargs)
    if name in ("item", "__bool__", "__int__", "__float__", "__index__", "tolist"):
        return _read_now(trace, func, args, kwargs)
    if name == "detach" and isinstance(args[0], torch.Tensor):
        return func(*args, **kwargs)
    return operate(trace, name, args, kwargs)


def _made(trace: Trace, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A tensor that the function makes of numbers."""
    found = func(*args, **kwargs)
    if isinstance(found, torch.Tensor):
        trace.made[id(found)] = found
    return found


def _read_now(trace: Trace, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A Python number of a captured tensor: the variant would hold today's value for good."""
    if id(args[0]) in trace.made:
        return func(*args, **kwargs)
    help = "use the tensor itself, as if it were a number; or make the number before, and capture that"
    refuse("not-one-number", "this reads a captured tensor while the function is traced", help)


def _flat(found: Any) -> Any:
    """All values in tuples, lists and dicts."""
    if isinstance(found, tuple | list):
        for item in found:
            yield from _flat(item)
    elif isinstance(found, dict):
        yield from _flat(tuple(found.values()))
    else:
        yield found
