"""A call of all ranks as a function that autograd can differentiate: each rank its own rows, the exchange inside."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnspec.distributed.job import Job
from attnspec.distributed.keys import Keys
from attnspec.runtime.parts import Partial

Kept = tuple[Tensor, ...]  # unrounded out and what the LSE lost, where the program has them


class Together(torch.autograd.Function):
    """(job, q, k, v, *declared) -> (out, lse), shards all of them. Every rank must run the backward if one does."""

    @staticmethod
    def forward(ctx: Any, job: Job, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Run the strategy; keep what its backward wants."""
        ctx.set_materialize_grads(False)
        out, lse, kept = forward(job, q, k, v)
        if any(ctx.needs_input_grad):
            ctx.job, ctx.dtypes = job, [tensor.dtype for tensor in tensors]
            ctx.save_for_backward(q, k, v, out, lse, *kept)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor | None
    ) -> tuple[Any, ...]:
        """Gradients in the order of the arguments."""
        q, k, v, out, lse, *kept = ctx.saved_tensors
        dout, dlse = grad_outputs
        dout = torch.zeros_like(out) if dout is None else dout
        dlse = torch.zeros_like(lse) if dlse is None else dlse
        found = backward(ctx.job, (q, k, v), (out, lse, tuple(kept)), dout, dlse, ctx.dtypes)
        return None, *(value if wanted else None for value, wanted in zip(found, ctx.needs_input_grad[1:], strict=True))


def forward(job: Job, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Kept]:
    """out and lse of this rank's rows, and what the backward wants besides."""
    is_packed = job.variant.sizes.is_packed
    found = job.forward(batched(q, is_packed), Keys(batched(k, is_packed), batched(v, is_packed)))
    whole, lse = unbatched(found.out, is_packed), unbatched(found.lse, is_packed)
    kept = () if found.lost is None else (whole, unbatched(found.lost, is_packed))
    return whole.to(q.dtype), lse, kept


def backward(
    job: Job,
    arrays: tuple[Tensor, Tensor, Tensor],
    results: tuple[Tensor, Tensor, Kept],
    dout: Tensor,
    dlse: Tensor,
    dtypes: Sequence[torch.dtype],
) -> list[Tensor | None]:
    """Gradients of q, k, v and the declared tensors of these dtypes. results: what `forward` gave."""
    (q, k, v), (out, lse, kept), is_packed = arrays, results, job.variant.sizes.is_packed
    whole, lost = kept if kept else (out, None)
    partial = Partial(batched(whole, is_packed), batched(lse, is_packed), None if lost is None else batched(lost, is_packed))
    given = partial, batched(dout, is_packed), batched(dlse.float(), is_packed)
    dq, dkeys, sums = job.backward(batched(q, is_packed), Keys(batched(k, is_packed), batched(v, is_packed)), given)
    found: list[Tensor | None] = [unbatched(value.to(q.dtype), is_packed) for value in (dq, *dkeys)]
    return found + [None if value is None else value.to(dtype) for value, dtype in zip(sums, dtypes, strict=True)]


def batched(array: Tensor, is_packed: bool) -> Tensor:
    """Packed tensors as a batch of one."""
    return array.unsqueeze(0) if is_packed else array


def unbatched(array: Tensor, is_packed: bool) -> Tensor:
    """The way back."""
    return array.squeeze(0) if is_packed else array
