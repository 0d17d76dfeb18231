"""How the operators are differentiated: by autograd, and inside torch.func.

Autograd that is registered with an operator is out of the reach of torch.func's transforms: there, functions of autograd's other
form (with `setup_context`) stand around the operators. Both keep the same and give the same.
"""

from typing import Any

import torch
from torch import Tensor

from attnspec.operators.handles import learned_of

SECOND = "attnspec derives first derivatives alone: the gradient of a variant cannot be differentiated again"


def refuse_second(*_: Any) -> Any:
    """RuntimeError instead of a wrong number."""
    raise RuntimeError(SECOND)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    """What the backward wants of the forward."""
    q, k, v, tensors, cu_seqlens_q, cu_seqlens_kv, *numbers = inputs
    out, lse, kept = output
    ctx.count, ctx.numbers = len(tensors), tuple(numbers)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, cu_seqlens_q, cu_seqlens_kv, out, lse, *tensors, *kept)


def differentiate(ctx: Any, dout: Tensor | None, dlse: Tensor | None, _: Any) -> tuple[Any, ...]:
    """Gradients by argument; a missing gradient of out or lse is zero."""
    given, rest = backward_arguments(ctx, dout, dlse)
    dq, dk, dv, learned = torch.ops.attnspec.backward(*given, *rest)
    return dq, dk, dv, by_declaration(rest[-2], learned), *[None] * len(rest)


def backward_arguments(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Tensors and lists of them that `attnspec::backward` takes, and the arguments behind."""
    q, k, v, cu_seqlens_q, cu_seqlens_kv, out, lse, *more = ctx.saved_tensors
    tensors, kept = more[: ctx.count], more[ctx.count :]
    dout = torch.zeros_like(out) if dout is None else dout
    dlse = torch.zeros_like(lse) if dlse is None else dlse
    return (dout, dlse, out, lse, kept, q, k, v, tensors), (cu_seqlens_q, cu_seqlens_kv, *ctx.numbers)


def by_declaration(handle: str, learned: Any) -> list[Tensor | None]:
    """A gradient or None for each declared tensor, from those of the learned ones."""
    found = list(learned)
    return [found.pop(0) if is_learned else None for is_learned in learned_of(handle)]


class TransformedForward(torch.autograd.Function):
    """`attnspec::forward`: (rest, q, k, v, *tensors) -> (out, lse, *kept). rest: the arguments behind the tensors."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rest: tuple[Any, ...], *arrays: Tensor) -> tuple[Tensor, ...]:
        """Run the operator."""
        q, k, v, *tensors = arrays
        out, lse, kept = torch.ops.attnspec.forward(q, k, v, tensors, *rest)
        return out, lse, *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what the backward wants."""
        rest, q, k, v, *tensors = inputs
        out, lse, *kept = output
        ctx.mark_non_differentiable(*kept)
        keep(ctx, (q, k, v, tensors, *rest), (out, lse, kept))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Gradients in the order of the arguments."""
        dout, dlse, *_ = gradients
        (*head, kept, q, k, v, tensors), rest = backward_arguments(ctx, dout, dlse)
        arrays = (*head, *kept, q, k, v, *tensors)
        dq, dk, dv, *learned = TransformedBackward.apply((len(kept), len(tensors)), rest, *arrays)
        return None, dq, dk, dv, *by_declaration(rest[-2], learned)


class TransformedBackward(torch.autograd.Function):
    """`attnspec::backward`: (sizes, rest, *arrays) -> (dq, dk, dv, *learned).

    sizes: how many tensors `kept` and `tensors` hold. arrays: dout, dlse, out, lse, *kept, q, k, v, *tensors.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(sizes: tuple[int, int], rest: tuple[Any, ...], *arrays: Tensor) -> tuple[Tensor, ...]:
        """Run the operator."""
        kept = 4 + sizes[0]
        head, middle, qkv, tensors = arrays[:4], arrays[4:kept], arrays[kept : kept + 3], arrays[kept + 3 :]
        dq, dk, dv, learned = torch.ops.attnspec.backward(*head, list(middle), *qkv, list(tensors), *rest)
        return dq, dk, dv, *learned

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: there is no second derivative."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """RuntimeError."""
        refuse_second()
