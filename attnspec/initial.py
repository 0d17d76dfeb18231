"""How learned tensors start, told by what the variant does with them."""

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.language.expr import Call, Expr, Number, names, nodes, tensors_read
from attnspec.lowering.analysis.analysed import Analysed

TABLE_WIDTH = 0.02  # standard deviation of biases


def initial_values(analysed: Analysed, name: str) -> Callable[[Tensor], object]:
    """A function that fills the tensor in place, held to its declared range where that has numbers as its ends."""
    fill, declared = free_values(analysed, name), analysed.spec.tensor(name)
    if not isinstance(declared.low, Number) or not isinstance(declared.high, Number):
        return fill
    low, high = declared.low.value, declared.high.value

    def fill_inside(tensor: Tensor) -> Tensor:
        fill(tensor)
        return tensor.clamp_(low, high)

    return fill_inside


def free_values(analysed: Analysed, name: str) -> Callable[[Tensor], object]:
    """As if every number were allowed, by the first that fits:

    * read by the sink: zeros, a logit beside scores around zero;
    * what multiplies the score: ones, or zeros where it is in an exponential, so that the score starts unchanged;
    * what multiplies a distance, one a head: ALiBi's slopes, 2^(-8 i / heads);
    * a table (two axes or more): normal, of standard deviation 0.02;
    * anything else: zeros.
    """
    if any(place.tensor == name for place in analysed.derivative.sink):
        return torch.nn.init.zeros_
    partials = [place.partial for place in analysed.derivative.learned if place.tensor == name]
    used = frozenset().union(*map(names, partials))
    if "score" in used:
        return torch.nn.init.zeros_ if any(is_exponential(partial, name) for partial in partials) else torch.nn.init.ones_
    shape = analysed.spec.tensor(name).shape
    if {"q", "kv"} <= used and len(shape) == 1 and names(shape[0]) == {"heads"}:
        return slopes_
    return small_ if len(shape) > 1 else torch.nn.init.zeros_


def is_exponential(partial: Expr, name: str) -> bool:
    """Whether a tensor stands in an exponential."""
    return any(isinstance(at, Call) and at.function in ("exp", "exp2") and name in tensors_read(at) for at in nodes(partial))


def slopes_(tensor: Tensor) -> Tensor:
    """Press et al. 2021: a geometric series over the heads."""
    count = len(tensor)
    return tensor.copy_(2.0 ** (-8.0 / count * torch.arange(1, count + 1, dtype=torch.float32, device=tensor.device)))


def small_(tensor: Tensor) -> Tensor:
    """Small and normal."""
    return torch.nn.init.normal_(tensor, std=TABLE_WIDTH)
