"""The reference target's emitted modules, run."""

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import torch
from attnspec.backends.emitted import Emitted
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.load_module import load_module
from torch import Tensor


@dataclass(frozen=True)
class ReferenceProgram:
    """Plain torch on the CPU; every run is deterministic."""

    emitted: Emitted
    learned: tuple[bool, ...]  # by declaration

    @cached_property
    def forward_module(self) -> ModuleType:
        """The live forward module."""
        return load_module(self.emitted.module("forward"), self.emitted.target)

    @cached_property
    def backward_module(self) -> ModuleType:
        """The live backward module."""
        return load_module(self.emitted.module("backward"), self.emitted.target)

    def forward(self, call: Call, /) -> Forward:
        """The f32 output is kept for the backward: rounded once, a row's gradients would not sum to what they should.

        So is what the LSE lost: at scores of 1e30 it loses the sum whole, and every probability would be 1.
        """
        with torch.device("cpu"):  # whatever device torch makes tensors on by default
            out, lse, lost = self.forward_module.forward(call.q, call.k, call.v, call.tensors, call.layout)
        return Forward(out.to(call.q.dtype), lse, (out, lost))

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients, each rounded once to the dtype of what it is the gradient of."""
        found = self.unrounded_backward(call, results, dout, dlse)
        tensors: tuple[Tensor | None, ...] = tuple(
            None if total is None else total.to(tensor.dtype) for total, tensor in zip(found.tensors, call.tensors, strict=True)
        )
        return Gradients(found.dq.to(call.q.dtype), found.dk.to(call.q.dtype), found.dv.to(call.q.dtype), tensors)

    def unrounded_backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients as they are summed: f32, and f64 for learned tensors; those of parts of a call can be added up."""
        out, lost = results.saved
        with torch.device("cpu"):
            dq, dk, dv, totals = self.backward_module.backward(
                call.q, call.k, call.v, out, results.lse, lost, dout, dlse, call.tensors, call.layout
            )
        tensors: tuple[Tensor | None, ...] = tuple(
            total if is_learned else None for total, is_learned in zip(totals, self.learned, strict=True)
        )
        return Gradients(dq, dk, dv, tensors)
