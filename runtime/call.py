"""A checked call, and what a compiled variant does with one.

Named tuples: making one costs a third of what a frozen dataclass does, and every call makes them.
"""

from typing import NamedTuple, Protocol

from attnspec.backends.layout import Layout
from torch import Tensor


class Call(NamedTuple):
    """Arguments that have passed every check. tensors: one a declaration, in the order of the file, of the declared dtype.

    starts: of packed sequences in q and in k, int32 on a GPU, whose `layout` then has no segments; None elsewhere.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    tensors: tuple[Tensor, ...]
    layout: Layout
    deterministic: bool
    starts: tuple[Tensor, Tensor] | None = None


class Forward(NamedTuple):
    """out in the dtype of q; lse f32; saved: what the program's own backward wants besides (tensors alone)."""

    out: Tensor
    lse: Tensor
    saved: tuple[Tensor, ...]


class Gradients(NamedTuple):
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
