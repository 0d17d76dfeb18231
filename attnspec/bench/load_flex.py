"""A spec's FlexAttention functions, live, over a call's tensors."""

import sys
from dataclasses import dataclass
from typing import Any

from attnspec.bench.emit_flex import emit_flex
from attnspec.language.spec import Spec
from attnspec.runtime.load_module import load_module


@dataclass(frozen=True)
class FlexFunctions:
    """None for what the spec lacks. scale: the argument of `flex_attention`. sink: (heads,) logits."""

    score_mod: Any
    mask_mod: Any
    sink: Any
    scale: float


def load_flex(spec: Spec, tensors: Any, batch: int, heads: int, kv_heads: int, len_q: int, len_kv: int) -> FlexFunctions:
    """The functions. tensors: by declaration, in order."""
    live = load_module(emit_flex(spec), "flex")
    sys.modules[live.__name__] = live  # torch's tracer looks up the module of a function that it traces
    score_mod, mask_mod, sink = live.make(list(tensors), batch, heads, kv_heads, len_q, len_kv)
    return FlexFunctions(score_mod, mask_mod, sink, live.SCALE)
