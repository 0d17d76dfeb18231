"""Variants as attention implementations of Hugging Face's transformers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from attnspec import stages
from attnspec.api import Attention, build
from attnspec.errors import ArgumentError
from attnspec.integrations.layer import Layer, spec_of_layer, spec_of_variant
from attnspec.integrations.visible import Visible, mask_for, whole
from attnspec.language.spec import Spec

Variant = str | PathLike[str] | Spec
NOT_WHOLE = (
    "attnspec reads a model's mask functions in Python, which no graph can hold: compile the model without fullgraph=True, "
    "and the rest of each layer is compiled around its attention"
)
Tensors = Mapping[str, Tensor] | Callable[..., Mapping[str, Tensor]]


def register(
    name: str = "attnspec",
    spec: Variant | Mapping[str, Variant] | None = None,
    *,
    dtype: torch.dtype | None = None,
    tensors: Tensors | None = None,
    target: str | None = None,
    on: str | None = None,
) -> None:
    """Make `attn_implementation=name` of a transformers model compute its attention by attnspec.

    spec: None for what each layer asks for itself: its mask (causal, sliding, chunked, packed, ...), scale, soft cap and
    sinks. Or a variant for every layer; or one for each layer type, such as {"sliding_attention": ..., "full_attention": ...}.
    Padding is hidden in every case. dtype: of q, k and v inside, for models of another one; None takes the model's.
    tensors: what the variant declares, by name, or a function of the layer's module that gives it; a name that is not there
    is looked for in what the model passes and among the module's attributes. target, on: as for `attnspec.build`.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        message = "transformers is not installed, or too old to register an attention in: pip install 'attnspec[transformers]'"
        raise ImportError(message) from error
    if dtype not in (None, torch.bfloat16, torch.float16):
        raise ArgumentError(f"dtype: {dtype}, wanted torch.bfloat16 or torch.float16, or None for the model's own")
    refuse_taken(name, AttentionInterface())
    by_type = isinstance(spec, Mapping)
    specs = {key: _checked(value) for key, value in spec.items()} if by_type else None if spec is None else _checked(spec)
    AttentionInterface.register(name, ModelAttention(name, specs, dtype, tensors, target, on))
    AttentionMaskInterface.register(name, mask_for)


def refuse_taken(name: str, known: Mapping[str, Any]) -> None:
    """ArgumentError for a name that others registered: it would change every model of the process that asks for theirs."""
    if not isinstance(name, str) or not name or set(name) & set("|/:@"):  # which transformers reads as names of other things
        raise ArgumentError(f"name: {name!r}, wanted a name to ask for with attn_implementation, such as 'attnspec'")
    if name == "eager" or not isinstance(known.get(name, None), ModelAttention | None):
        raise ArgumentError(f"name: {name!r} is an attention of transformers' own or of another package; choose another name")


@dataclass(frozen=True)
class ModelAttention:
    """What a model calls for every layer, with tensors (batch, heads, length, head_dim)."""

    name: str
    specs: Spec | Mapping[str, Spec] | None
    dtype: torch.dtype | None
    tensors: Tensors | None
    target: str | None
    on: str | None
    made: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # specs of layers that hold no data

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """The attention of one layer, (batch, length, heads, head_dim), and no weights: they are never there."""
        if torch.compiler.is_compiling():
            torch._dynamo.graph_break(msg=NOT_WHOLE)
        if dropout:
            raise ArgumentError(f"dropout: {dropout}: attnspec has none; set the config's attention_dropout to 0")
        if others.get("position_bias") is not None:
            raise ArgumentError("position_bias: an added tensor of all pairs; write it as a variant with a learned bias")
        visible = attention_mask
        if not isinstance(visible, Visible):
            causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
            visible = whole(attention_mask, bool(causal), query.shape[2], key.shape[2])
        asked = query.dtype
        q, k, v = (tensor.to(self.dtype or asked).transpose(1, 2) for tensor in (query, key, value))
        layer = Layer.of(module, q, k, v, scaling, others)
        spec, given = self._spec_for(module, visible, layer, others)
        places = {"q_offset": visible.q_offset, "kv_offset": visible.kv_offset, "len_q": visible.length, "len_kv": visible.length}
        if visible.bias is not None:
            places = {}
        options: dict[str, Any] = {**places, **given}
        return _built(spec, self.target, self.on)(q, k, v, **options).to(asked), None

    def _spec_for(
        self, module: nn.Module, visible: Visible, layer: Layer, others: Mapping[str, Any]
    ) -> tuple[Spec, dict[str, Any]]:
        """The variant of a layer and the tensors that it declares."""
        own = self._own_spec(module)
        key = (visible.key, visible.padding is not None, layer, own)
        known = visible.found if visible.key is None else self.made
        if key not in known:
            known[key] = spec_of_layer(visible, layer) if own is None else spec_of_variant(own, visible, layer)
        spec, bound = known[key]
        found = {name: visible.padding if tensor is None else tensor for name, tensor in bound.items()}
        return spec, found | self._declared(spec, found, module, others)

    def _own_spec(self, module: nn.Module) -> Spec | None:
        """The variant that was registered for a layer."""
        if not isinstance(self.specs, Mapping):
            return self.specs
        kind = getattr(module, "layer_type", None)
        if kind is None:
            kind = "sliding_attention" if getattr(module, "sliding_window", None) else "full_attention"
        if kind not in self.specs:
            names = ", ".join(self.specs)
            raise ArgumentError(f"{self.name}: this model has layers of type {kind}, but variants are given for {names}")
        return self.specs[kind]

    def _declared(self, spec: Spec, found: Mapping[str, Any], module: nn.Module, others: Mapping[str, Any]) -> dict[str, Tensor]:
        """Tensors of the spec that neither the mask nor the padding gave."""
        given = self.tensors(module) if callable(self.tensors) else self.tensors or {}
        wanted = [tensor.name for tensor in spec.tensors if tensor.name not in found]
        sources = (given, others, {"sinks": others.get("s_aux")}, _Attributes(module))
        values = {name: next((at[name] for at in sources if at.get(name) is not None), None) for name in wanted}
        return {name: value for name, value in values.items() if value is not None}


class _Attributes(Mapping[str, Any]):
    """A module's attributes, as a mapping."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __getitem__(self, name: str) -> Any:
        value = getattr(self.module, name, None)
        return value if isinstance(value, Tensor | int | float) else None

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


@lru_cache(maxsize=256)
def _built(spec: Spec, target: str | None, on: str | None) -> Attention:
    """One built variant for equal specs."""
    return build(spec, target=target, on=on)


def _checked(variant: Variant) -> Spec:
    """A path, a text or a spec as a spec."""
    return variant if isinstance(variant, Spec) else stages.read(variant)
