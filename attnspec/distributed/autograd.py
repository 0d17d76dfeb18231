"""A call of all ranks as a function that autograd can differentiate: each rank its own rows, the exchange inside."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnspec.distributed.job import Job
from attnspec.runtime.parts import Partial
from attnspec.runtime.reference_program import ReferenceProgram


class Together(torch.autograd.Function):
    """(job, q, k, v, *declared) -> (out, lse), shards all of them. Every rank must run the backward if one does."""

    @staticmethod
    def forward(ctx: Any, job: Job, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Run the strategy; keep what its backward wants: results unrounded where the program has them so."""
        ctx.set_materialize_grads(False)
        is_packed = job.variant.sizes.is_packed
        merged = job.forward(batched(q, is_packed), keys_of(k, v, is_packed))
        out, lse = unbatched(merged.out.to(q.dtype), is_packed), unbatched(merged.lse, is_packed)
        if any(ctx.needs_input_grad):
            kept = merged.out if isinstance(job.variant.program, ReferenceProgram) else merged.out.to(q.dtype)
            ctx.job, ctx.dtypes = job, [tensor.dtype for tensor in tensors]
            ctx.save_for_backward(q, k, v, kept, merged.lse, merged.lost)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor | None
    ) -> tuple[Any, ...]:
        """Gradients in the order of the arguments."""
        q, k, v, out, lse, lost = ctx.saved_tensors
        job: Job = ctx.job
        is_packed = job.variant.sizes.is_packed
        dout, dlse = grad_outputs
        dout = torch.zeros_like(out, dtype=q.dtype) if dout is None else batched(dout, is_packed)
        dlse = torch.zeros_like(lse) if dlse is None else batched(dlse.float(), is_packed)
        whole = Partial(out.float(), lse, lost)
        dq, dkeys, sums = job.backward(batched(q, is_packed), keys_of(k, v, is_packed), whole, dout, dlse)
        dk, dv = dkeys.split([k.shape[-1], v.shape[-1]], -1)
        found = [unbatched(value.to(q.dtype), is_packed) for value in (dq, dk, dv)]
        found += [None if value is None else value.to(dtype) for value, dtype in zip(sums, ctx.dtypes, strict=True)]
        return None, *(value if wanted else None for value, wanted in zip(found, ctx.needs_input_grad[1:], strict=True))


def batched(array: Tensor, is_packed: bool) -> Tensor:
    """Packed tensors as a batch of one."""
    return array.unsqueeze(0) if is_packed else array


def unbatched(array: Tensor, is_packed: bool) -> Tensor:
    """The way back."""
    return array.squeeze(0) if is_packed else array


def keys_of(k: Tensor, v: Tensor, is_packed: bool) -> Tensor:
    """k and v side by side, (batch, rows, kv_heads, head_dim + width_v): they travel as one."""
    return batched(torch.cat([k, v], -1), is_packed)
