"""The spec of one layer of a model: from what the layer asks for, or from a variant that the user gave."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

import torch
from torch import Tensor, nn

from attnspec.errors import ArgumentError
from attnspec.flex.from_flex import from_flex
from attnspec.integrations.visible import Rule, Visible
from attnspec.language.check import check
from attnspec.language.expr import Expr, Logic, Name, Number, Read
from attnspec.language.parse import parse
from attnspec.language.show import show
from attnspec.language.spec import Spec
from attnspec.language.spec import Tensor as Declared

WORDS: dict[torch.dtype, Any] = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "fp16"}
Bound = dict[str, Tensor | None]  # None: the padding of the call


@dataclass(frozen=True)
class Layer:
    """What a layer passes beside its tensors. sinks: the type of its per-head logits, None if it has none."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    dtype: torch.dtype
    scaling: float | None
    softcap: float | None
    sinks: torch.dtype | None

    @staticmethod
    def of(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, scaling: float | None, others: Mapping[str, Any]) -> "Layer":
        """q, k, v: (batch, length, heads, head_dim)."""
        if q.dtype not in (torch.bfloat16, torch.float16):
            help = "load the model with dtype=torch.bfloat16, or say register(..., dtype=torch.bfloat16) to convert here"
            raise ArgumentError(f"query: dtype {q.dtype}, wanted bfloat16 or float16: {help}")
        sinks = others.get("s_aux")
        kind = getattr(module, "layer_type", None) or ("sliding" if getattr(module, "sliding_window", None) else "attention")
        model = getattr(getattr(module, "config", None), "model_type", type(module).__name__)
        return Layer(
            name=f"{model}_{kind}",
            batch=len(q),
            heads=q.shape[2],
            kv_heads=k.shape[2],
            head_dim=q.shape[3],
            head_dim_v=v.shape[3],
            dtype=q.dtype,
            scaling=scaling,
            softcap=others.get("softcap"),
            sinks=None if sinks is None else sinks.dtype,
        )


def spec_of_layer(visible: Visible, layer: Layer) -> tuple[Spec, Bound]:
    """What a layer computes by itself: its own mask function traced, and its scale, soft cap and sinks written behind it."""
    found = from_flex(
        _bias(visible),
        _rule(visible),
        head_dim=(layer.head_dim, layer.head_dim_v),
        dtype=layer.dtype,
        scale=layer.scaling,
        name=layer.name,
        batch=layer.batch,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        len_q=visible.length,
        len_kv=visible.length,
    )
    lines = [found.text.rstrip("\n")]
    if layer.softcap is not None:
        lines.append(f"score = softcap(score, {float(layer.softcap)!r})")
    if layer.sinks is not None:
        lines += [f"learned sinks: {WORDS[layer.sinks]}[heads]", "sink = sinks[h]"]
    spec = check(parse("\n".join(lines) + "\n", f"<{layer.name}.attn>"))
    return spec, {name: None if tensor is visible.padding else tensor for name, tensor in found.tensors.items()}


def spec_of_variant(own: Spec, visible: Visible, layer: Layer) -> tuple[Spec, Bound]:
    """A variant given for a layer, in the layer's type and with the padding hidden; what the layer asks for it must have."""
    if visible.bias is not None:
        raise ArgumentError("attention_mask: a mask of four axes hides keys on its own; a given variant has its own mask")
    for what, wanted, width in (("q and k", layer.head_dim, own.head_dim), ("v", layer.head_dim_v, own.head_dim_v)):
        if wanted != width:
            found = f"this model's {what} are {wanted} wide, the variant's {width}"
            raise ArgumentError(f"{own.name}: {found}: write `head_dim {wide(layer)}` in the variant")
    if layer.sinks is not None and own.sink is None:
        raise ArgumentError(f"{own.name}: this model has sinks (s_aux), but the variant has no `sink` statement")
    if layer.softcap is not None and own.score == Name("score", "float"):
        raise ArgumentError(
            f"{own.name}: this model caps its scores at {layer.softcap}, but the variant leaves scores as they are"
        )
    scale = own.scale.value if isinstance(own.scale, Number) else None
    if layer.scaling is not None and scale is not None and not isclose(scale, layer.scaling, rel_tol=1e-6):
        help = f"write `scale {layer.scaling!r}` in the variant"
        raise ArgumentError(f"{own.name}: this model scales by {layer.scaling!r}, the variant by {scale!r}: {help}")
    own = replace(own, dtype=WORDS[layer.dtype])
    if visible.padding is None:
        return _read_back(own), {}
    name = "padding" if all(tensor.name != "padding" for tensor in own.tensors) else "padding_of_model"
    token: Expr = Read(name, (Name("b", "int"), Name("kv", "int")), "bool")
    declared = Declared(name, "bool", (Name("batch", "int"), Name("len_kv", "int")), False)
    mask = token if own.mask is None else Logic("and", own.mask, token)
    return _read_back(replace(own, tensors=(*own.tensors, declared), mask=mask)), {name: None}


def wide(layer: Layer) -> str:
    """The widths of a layer as `head_dim` takes them."""
    return str(layer.head_dim) if layer.head_dim == layer.head_dim_v else f"{layer.head_dim}, {layer.head_dim_v}"


def _read_back(spec: Spec) -> Spec:
    """A spec that was changed, as its own text says it."""
    return check(parse(show(spec), f"<{spec.name}.attn>"))


def _rule(visible: Visible) -> Rule | None:
    """The mask function with the padding hidden."""
    rule, padding = visible.rule, visible.padding
    if padding is None:
        return rule

    def with_padding(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        is_token = padding[b, kv_idx]
        return is_token if rule is None else rule(b, h, q_idx, kv_idx) & is_token

    return with_padding


def _bias(visible: Visible) -> Rule | None:
    """What a mask tensor of floats adds to the score."""
    bias = visible.bias
    if bias is None or bias.dtype == torch.bool:
        return None

    def added(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score + bias[b if len(bias) > 1 else 0, h if bias.shape[1] > 1 else 0, q_idx if bias.shape[2] > 1 else 0, kv_idx]

    return added
