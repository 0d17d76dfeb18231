"""Whether torch only looks on: compilers, fake tensors, modes and transforms of functions see operators, not what they do."""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack

from attnspec.errors import ArgumentError

PLAIN = (Tensor, torch.nn.Parameter)
FORWARD_MODE = "Jvp"
_modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active


def is_traced(arrays: Any) -> bool:
    """Whether a call has to go through torch's dispatcher, so that somebody else sees it as one operation."""
    if torch.compiler.is_compiling() or is_watched():
        return True
    for array in arrays:  # noqa: SIM110 - every call runs this, and the generator of an `any` costs as much as all the rest
        if type(array) not in PLAIN and isinstance(array, Tensor):
            return True
    return False


def is_watched() -> bool:
    """Whether a mode (fake tensors, a tracer, a counter of FLOPs, a policy of checkpoints) or a transform is active."""
    return _modes() > 0 or _transforms()


def is_transforming() -> bool:
    """Whether a transform of torch.func is active."""
    return _transforms()


def is_transformed(array: Any) -> bool:
    """Whether an argument stands for another tensor: fake ones, and classes with an `__torch_dispatch__` of their own."""
    return isinstance(array, Tensor) and type(array) not in PLAIN


def refuse_forward_mode() -> None:
    """ArgumentError inside torch.func.jvp: no derivative is derived in that direction."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return
    top = peek_interpreter_stack()
    if top is not None and top.key().name == FORWARD_MODE:
        raise ArgumentError("q: forward-mode derivatives (torch.func.jvp) are not derived: use grad or vjp, or plain autograd")
