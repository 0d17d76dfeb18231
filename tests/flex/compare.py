"""What torch's own flex_attention makes of the same functions, and how near to it a traced variant has to be."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.attention.flex_attention as flex
from attnspec.runtime.oracle_expression import evaluate
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.flex_attention import math_attention

import attnspec

BATCH, HEADS, WIDTH = 2, 4, 16
# Scores and LSE are f32 in both; q . k of 16 terms, and a share of a few roundings for each function of the score.
LSE_TOLERANCE = 2e-5
# Results are rounded to fp16 once, and so are gradients: 2**-11 of their size, and sums of a few dozen of them.
TOLERANCE = 2e-3


@dataclass(frozen=True)
class Drawn:
    """(batch, heads, length, width), in fp16."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    dout: torch.Tensor


def draw(len_q: int = 24, len_kv: int = 24, kv_heads: int = HEADS, seed: int = 0, size: float = 1.0) -> Drawn:
    """Normal q, k, v and gradient of the output. size: of q, for scores that a cap bends."""
    source = torch.Generator().manual_seed(seed)

    def normal(heads: int, length: int) -> torch.Tensor:
        return torch.randn(BATCH, heads, length, WIDTH, generator=source).half()

    q, k, v, dout = normal(HEADS, len_q), normal(kv_heads, len_kv), normal(kv_heads, len_kv), normal(HEADS, len_q)
    return Drawn(q * size, k, v, dout)


def by_torch(drawn: Drawn, score_mod: Any, mask_mod: Any, learned: Sequence[torch.Tensor], **options: Any) -> list[torch.Tensor]:
    """LSE and output of torch's flex_attention, and gradients of q, k, v and the captured tensors, all in f32.

    flex_attention has no backward on the CPU: the gradients are autograd's, of the function that its forward calls there.
    """
    q, k, v = (tensor.float().requires_grad_() for tensor in (drawn.q, drawn.k, drawn.v))
    block_mask = blocks_of(drawn, mask_mod)
    with torch.no_grad(), patch.object(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True), quiet():
        plain = (tensor.detach() for tensor in (q, k, v))
        out, lse = flex.flex_attention(*plain, score_mod, block_mask, return_lse=True, **options)
    scale = options.get("scale") or WIDTH**-0.5
    mask = (flex.noop_mask if mask_mod is None else mask_mod,)
    again, _, _ = math_attention(q, k, v, score_mod or flex._identity, mask, scale, {})
    torch.testing.assert_close(again.detach(), out)
    return [lse, out, *torch.autograd.grad(again, (q, k, v, *learned), drawn.dout.float())]


def by_torch_compiled(
    drawn: Drawn, score_mod: Any, mask_mod: Any, learned: Sequence[torch.Tensor], **options: Any
) -> list[torch.Tensor]:
    """The same with flex_attention's own backward, which runs on the CPU too once its check of the device is left out."""
    q, k, v = (tensor.float().requires_grad_() for tensor in (drawn.q, drawn.k, drawn.v))
    with patch.object(flex, "_validate_device", lambda *tensors: None), quiet():
        out, lse = flex.flex_attention(q, k, v, score_mod, blocks_of(drawn, mask_mod), return_lse=True, **options)
    return [lse.detach(), out.detach(), *torch.autograd.grad(out, (q, k, v, *learned), drawn.dout.float())]


def blocks_of(drawn: Drawn, mask_mod: Any) -> Any:
    """The BlockMask of a function."""
    if mask_mod is None:
        return None
    return flex.create_block_mask(mask_mod, BATCH, HEADS, drawn.q.shape[2], drawn.k.shape[2], device="cpu")


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch says of lse and of speed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def by_attnspec(
    drawn: Drawn, score_mod: Any, mask_mod: Any, learned: Sequence[torch.Tensor], **options: Any
) -> tuple[list[torch.Tensor], attnspec.FlexVariant]:
    """The same by the traced variant, and the variant."""
    q, k, v = (tensor.transpose(1, 2).detach().requires_grad_() for tensor in (drawn.q, drawn.k, drawn.v))
    sizes = {"batch": BATCH, "heads": HEADS, "kv_heads": k.shape[2], "len_q": q.shape[1], "len_kv": k.shape[1]}
    found = attnspec.from_flex(score_mod, mask_mod, head_dim=WIDTH, dtype="fp16", **sizes, **options)
    out, lse = attnspec.build(found.spec, target="reference")(q, k, v, return_lse=True, **found.tensors)
    dq, dk, dv, *others = torch.autograd.grad(out, (q, k, v, *learned), drawn.dout.transpose(1, 2))
    return [lse.detach(), *(tensor.detach().transpose(1, 2) for tensor in (out, dq, dk, dv)), *others], found


def check_equal(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> None:
    """LSE to f32, the rest to fp16."""
    assert len(found) == len(wanted)
    torch.testing.assert_close(found[0], wanted[0], atol=LSE_TOLERANCE, rtol=LSE_TOLERANCE)
    for one, other in zip(found[1:], wanted[1:], strict=True):
        assert one.shape == other.shape
        size = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one.float(), other.float(), atol=TOLERANCE * size, rtol=TOLERANCE)


def check_same(
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    drawn: Drawn | None = None,
    learned: Sequence[torch.Tensor] = (),
    enable_gqa: bool = False,
    scale: float | None = None,
    reference: Callable[..., list[torch.Tensor]] = by_torch,
) -> attnspec.FlexVariant:
    """Forward and backward agree with torch's; gives the traced variant."""
    drawn = draw() if drawn is None else drawn
    found, variant = by_attnspec(drawn, score_mod, mask_mod, learned, scale=scale)
    check_equal(found, reference(drawn, score_mod, mask_mod, learned, enable_gqa=enable_gqa, scale=scale))
    return variant


def indices_of(length: int) -> dict[str, Any]:
    """Every index along an axis of its own, (batch, heads, query, key)."""
    sizes = {"b": BATCH, "h": HEADS, "q": length, "kv": length}
    shape = [[-1 if at == axis else 1 for at in range(4)] for axis in range(4)]
    found = {name: torch.arange(size).view(shape[axis]).numpy() for axis, (name, size) in enumerate(sizes.items())}
    return found | {"batch": BATCH, "heads": HEADS, "kv_heads": HEADS, "len_q": length, "len_kv": length}


def visible_by_spec(variant: attnspec.FlexVariant, length: int) -> torch.Tensor:
    """The mask of a traced variant, by the oracle's reading of the language."""
    if variant.spec.mask is None:
        return torch.ones(BATCH, HEADS, length, length, dtype=torch.bool)
    found = evaluate(variant.spec.mask, indices_of(length), arrays_of(variant)).value
    return torch.as_tensor(found).broadcast_to(BATCH, HEADS, length, length)


def score_by_spec(variant: attnspec.FlexVariant, score: torch.Tensor) -> torch.Tensor:
    """The score of a traced variant, by the oracle's reading of the language, in f64."""
    given = indices_of(score.shape[-1]) | {"score": score.double().numpy(), "scale": 1.0}
    return torch.as_tensor(evaluate(variant.spec.score, given, arrays_of(variant)).value).broadcast_to(score.shape)


def arrays_of(variant: attnspec.FlexVariant) -> dict[str, Any]:
    """The captured tensors for the oracle."""
    plain = {name: tensor.detach() for name, tensor in variant.tensors.items()}
    return {name: (tensor.double() if tensor.is_floating_point() else tensor).numpy() for name, tensor in plain.items()}


def score_by_torch(score_mod: Any, score: torch.Tensor) -> torch.Tensor:
    """The score function at every element, as FlexAttention's forward on the CPU applies it."""
    places = [torch.arange(size) for size in score.shape]
    with TransformGetItemToIndex(), torch.no_grad():
        return flex._vmap_for_bhqkv(score_mod, prefix=(0,))(score, *places)
