"""Who takes part: ours, and those of the peers that are installed and can express the variant."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from attnspec.api import Attention
from attnspec.bench.load_flex import FlexFunctions, load_flex
from attnspec.bench.recognise import Known, recognise
from attnspec.language.expr import names
from attnspec.language.spec import Spec
from attnspec.runtime.draw_inputs import Inputs

OURS = "attnspec"


@dataclass(frozen=True)
class Contender:
    """call: gives the output in the layout of q, None where it takes no part for the reason given."""

    name: str
    call: Callable[[], Tensor] | None
    reason: str = ""


def contenders(attention: Attention, inputs: Inputs, *, is_compiled: bool = True) -> list[Contender]:
    """All, ours first. is_compiled: FlexAttention through torch.compile, as it is meant to be run."""
    spec = attention.spec
    known = recognise(spec)
    given: dict[str, Any] = {**inputs.keywords, **inputs.tensors}
    return [
        Contender(OURS, lambda: attention(inputs.q, inputs.k, inputs.v, **given)),
        fa4(spec, known, inputs),
        cudnn(spec, known, inputs),
        flex(spec, inputs, "FlexAttention", None, is_compiled),
        flex(spec, inputs, "FlexAttention FLASH", "FLASH", is_compiled),
    ]


def fa4(spec: Spec, known: Known | str, inputs: Inputs) -> Contender:
    """flash-attn-4."""
    name = "FA4"
    if isinstance(known, str):
        return Contender(name, None, f"flash_attn_func has no argument for {known}")
    if known.is_top_left and not spec.is_varlen and inputs.q.shape[1] != inputs.k.shape[1]:
        return Contender(name, None, "flash_attn_func aligns positions at the end")
    if find_spec("flash_attn") is None or find_spec("flash_attn.cute") is None:
        return Contender(name, None, "flash-attn-4 is not installed")
    arguments: dict[str, Any] = {
        "softmax_scale": known.scale,
        "causal": known.is_causal and known.left is None,
        "window_size": (None, None) if known.is_causal and known.left is None else (known.left, known.right),
        "softcap": known.softcap,
    }
    if known.sink is not None:
        arguments["learnable_sink"] = inputs.tensors[known.sink].to(inputs.q.dtype)
    if spec.is_varlen:
        starts_q, starts_kv = inputs.keywords["cu_seqlens_q"], inputs.keywords["cu_seqlens_kv"]
        arguments |= {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_kv}
        arguments |= {"max_seqlen_q": int(starts_q.diff().max()), "max_seqlen_k": int(starts_kv.diff().max())}

    def call() -> Tensor:
        from flash_attn.cute import flash_attn_func, flash_attn_varlen_func  # pyright: ignore[reportMissingImports]

        function = flash_attn_varlen_func if spec.is_varlen else flash_attn_func
        found = function(inputs.q, inputs.k, inputs.v, **arguments)
        return found[0] if isinstance(found, tuple) else found

    return Contender(name, call)


def cudnn(spec: Spec, known: Known | str, inputs: Inputs) -> Contender:
    """cuDNN through scaled_dot_product_attention."""
    name = "cuDNN"
    why = refuse_cudnn(spec, known, inputs)
    if why:
        return Contender(name, None, f"scaled_dot_product_attention has no argument for {why}")
    assert isinstance(known, Known)

    def call() -> Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q, k, v = (array.transpose(1, 2) for array in (inputs.q, inputs.k, inputs.v))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            found = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=known.is_causal, scale=known.scale, enable_gqa=q.shape[1] != k.shape[1]
            )
        return found.transpose(1, 2)

    return Contender(name, call)


def refuse_cudnn(spec: Spec, known: Known | str, inputs: Inputs) -> str:
    """What it cannot express, in words; nothing if it can. A mask tensor of every score is no way to express one."""
    if isinstance(known, str):
        return known
    if spec.is_varlen:
        return "packed sequences"
    if known.softcap or known.sink:
        return "a soft cap or a sink"
    if known.left is not None or known.right not in (None, 0):
        return "a window"
    if known.is_causal and not known.is_top_left and inputs.q.shape[1] != inputs.k.shape[1]:
        return "a causal mask aligned at the end"
    return ""


def flex(spec: Spec, inputs: Inputs, name: str, backend: str | None, is_compiled: bool) -> Contender:
    """FlexAttention, its functions emitted from the spec. backend: one of its `kernel_options`."""
    if spec.is_varlen:
        return Contender(name, None, "flex_attention takes a batch, not packed sequences")
    if backend is not None and find_spec("flash_attn") is None:
        return Contender(name, None, "its FLASH backend needs flash-attn-4, which is not installed")
    sizes = (len(inputs.q), inputs.q.shape[2], inputs.k.shape[2], inputs.q.shape[1], inputs.k.shape[1])
    functions = load_flex(spec, [inputs.tensors[tensor.name] for tensor in spec.tensors], *sizes)
    return Contender(name, flex_call(spec, inputs, functions, backend, is_compiled))


def flex_call(
    spec: Spec, inputs: Inputs, functions: FlexFunctions, backend: str | None, is_compiled: bool
) -> Callable[[], Tensor]:
    """The call; its block mask is made once, and not timed."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    attend: Any = torch.compile(flex_attention, dynamic=False) if is_compiled else flex_attention
    blocks: Any = None
    if functions.mask_mod is not None and spec.mask is not None:
        used, (batch, length, heads, _) = names(spec.mask), inputs.q.shape
        per_batch, per_head = "b" in used, bool({"h", "hkv"} & used)
        shape = (batch if per_batch else None, heads if per_head else None, length, inputs.k.shape[1])
        blocks = create_block_mask(functions.mask_mod, *shape, device=str(inputs.q.device))
    keywords: dict[str, Any] = {"score_mod": functions.score_mod, "block_mask": blocks, "scale": functions.scale}
    if backend is not None:
        keywords["kernel_options"] = {"BACKEND": backend}
    keywords["enable_gqa"] = inputs.q.shape[2] != inputs.k.shape[2]

    def call() -> Tensor:
        q, k, v = (array.transpose(1, 2) for array in (inputs.q, inputs.k, inputs.v))
        if functions.sink is None:
            return attend(q, k, v, **keywords).transpose(1, 2)
        out, lse = attend(q, k, v, return_lse=True, **keywords)
        share = torch.sigmoid(lse - functions.sink[None, :, None])[..., None]  # of the row's sum that the sink leaves
        return (out * share.to(out.dtype)).transpose(1, 2)

    return call
