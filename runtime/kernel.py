"""A compiled variant as a function that autograd can differentiate."""

from dataclasses import dataclass
from typing import Any

import torch
from attnspec.runtime.call import Call, Forward, Program
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction, once_differentiable


@dataclass(frozen=True)
class Kernel:
    """The callable of a process that runs a call at once. Where torch looks on, `attnspec.operators` stands in its place."""

    program: Program

    def __call__(self, call: Call) -> tuple[Tensor, Tensor]:
        """out and lse of a checked call."""
        q, k, v, tensors = call[:4]
        if torch.is_grad_enabled() and needs_gradients(q, k, v, tensors):
            return Differentiable.apply(self.program, call, q, k, v, *tensors)  # pyright: ignore[reportAttributeAccessIssue]
        return self.program.forward(call)[:2]


def needs_gradients(q: Tensor, k: Tensor, v: Tensor, tensors: tuple[Tensor, ...]) -> bool:
    """Whether autograd has to record a call."""
    if q.requires_grad or k.requires_grad or v.requires_grad:
        return True
    return bool(tensors) and any(array.requires_grad for array in tensors)


class Differentiable(_SingleLevelFunction):
    """(program, call, q, k, v, *tensors) -> (out, lse). The tensors stand apart so that autograd sees them.

    torch's public base looks for transforms in each call, which there are none of here, and takes as long for it as for the rest.
    """

    @staticmethod
    def forward(ctx: Any, program: Program, call: Call, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Run the program's forward; keep what its backward wants."""
        ctx.set_materialize_grads(False)
        results = program.forward(call)
        if any(ctx.needs_input_grad):
            ctx.program, ctx.layout, ctx.deterministic, ctx.starts = program, call.layout, call.deterministic, call.starts
            ctx.save_for_backward(results.out, results.lse, *tensors, *results.saved)
        return results.out, results.lse

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor | None
    ) -> tuple[Any, ...]:
        """Gradients in the order of the arguments; a missing gradient of out or lse is zero."""
        dout, dlse = grad_outputs
        count = len(ctx.needs_input_grad) - 2
        out, lse, *rest = ctx.saved_tensors
        (q, k, v, *tensors), saved = rest[:count], rest[count:]
        call = Call(q, k, v, tuple(tensors), ctx.layout, ctx.deterministic, ctx.starts)
        dout = torch.zeros_like(out) if dout is None else dout.contiguous()
        dlse = torch.zeros_like(lse) if dlse is None else dlse.to(torch.float32).contiguous()
        found = ctx.program.backward(call, Forward(out, lse, tuple(saved)), dout, dlse)
        gradients = (found.dq, found.dk, found.dv, *found.tensors)
        wanted = ctx.needs_input_grad[2:]
        return None, None, *(value if needed else None for value, needed in zip(gradients, wanted, strict=True))
