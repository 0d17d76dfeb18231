"""A checked call, and what a compiled variant does with one."""

from dataclasses import dataclass
from typing import Protocol

from attnspec.backends.layout import Layout
from torch import Tensor


@dataclass(frozen=True)
class Call:
    """Arguments that have passed every check. tensors: one a declaration, in the order of the file, of the declared dtype."""

    q: Tensor
    k: Tensor
    v: Tensor
    tensors: tuple[Tensor, ...]
    layout: Layout
    deterministic: bool


@dataclass(frozen=True)
class Forward:
    """out in the dtype of q; lse f32; saved: what the program's own backward wants besides (tensors alone)."""

    out: Tensor
    lse: Tensor
    saved: tuple[Tensor, ...]


@dataclass(frozen=True)
class Gradients:
    """dq, dk, dv in the dtype of q; tensors: one a declaration in order, None where it is not learned."""

    dq: Tensor
    dk: Tensor
    dv: Tensor
    tensors: tuple[Tensor | None, ...]


class Program(Protocol):
    """A variant compiled for a target; the reference's is `ReferenceProgram`."""

    def forward(self, call: Call, /) -> Forward:
        """Results of a call."""
        ...

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients of a call. dout: contiguous, as out; dlse: f32, as lse."""
        ...
