"""Random inputs that fit a spec, the same for the same seed: for `attnc run` and for tests."""

from dataclasses import dataclass, field
from typing import Any

import torch
from attnspec.runtime.arguments import DTYPES
from attnspec.runtime.integers import extent_at
from attnspec.runtime.range_ends import ends_at
from torch import Tensor

from attnspec.language.spec import Spec
from attnspec.language.spec import Tensor as Declared

WIDTH = 0.5  # standard deviation of float tensors: biases that matter and do not drown the scores


@dataclass(frozen=True)
class Shape:
    """Sizes of a call. With packed sequences the lengths are those of the first; the others are no longer."""

    batch: int = 1
    heads: int = 4
    kv_heads: int = 2
    len_q: int = 300
    len_kv: int = 300


@dataclass(frozen=True)
class Inputs:
    """Arguments of a call and the gradients that come back to it. keywords: cu_seqlens, where packed."""

    q: Tensor
    k: Tensor
    v: Tensor
    tensors: dict[str, Tensor]
    dout: Tensor
    dlse: Tensor
    keywords: dict[str, Any] = field(default_factory=dict)

    def on(self, device: torch.device | str) -> "Inputs":
        """The same on another device."""
        q, k, v, dout, dlse = (array.to(device) for array in (self.q, self.k, self.v, self.dout, self.dlse))
        tensors, keywords = ({name: array.to(device) for name, array in given.items()} for given in (self.tensors, self.keywords))
        return Inputs(q, k, v, tensors, dout, dlse, keywords)


def fit_shape(spec: Spec, shape: Shape) -> Shape:
    """The shape with key/value heads that go with a declared `group`."""
    if spec.group is None or shape.heads == shape.kv_heads * spec.group:
        return shape
    kv_heads = max(1, shape.heads // spec.group)
    return Shape(shape.batch, kv_heads * spec.group, kv_heads, shape.len_q, shape.len_kv)


def draw_inputs(spec: Spec, shape: Shape, seed: int = 0) -> Inputs:
    """Normal q, k, v, dout and dlse; declared tensors within their ranges, sorted where they say so."""
    generator = torch.Generator().manual_seed(seed)
    dtype = DTYPES[spec.dtype]
    lengths_q = draw_lengths(spec, shape.batch, shape.len_q, generator)
    lengths_kv = draw_lengths(spec, shape.batch, shape.len_kv, generator)
    rows, keys = ([shape.batch, shape.len_q], [shape.batch, shape.len_kv])
    keywords: dict[str, Any] = {}
    if spec.is_varlen:
        rows, keys = [sum(lengths_q)], [sum(lengths_kv)]
        keywords = {"cu_seqlens_q": starts(lengths_q), "cu_seqlens_kv": starts(lengths_kv)}

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator)

    q = normal(*rows, shape.heads, spec.head_dim).to(dtype)
    k = normal(*keys, shape.kv_heads, spec.head_dim).to(dtype)
    v = normal(*keys, shape.kv_heads, spec.head_dim_v).to(dtype)
    dout = normal(*rows, shape.heads, spec.head_dim_v).to(dtype)
    dlse = normal(*rows, shape.heads).transpose(-1, -2).contiguous()
    sizes = {
        "batch": shape.batch,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "len_q": max(lengths_q, default=0),
        "len_kv": max(lengths_kv, default=0),
    }
    tensors = {tensor.name: draw_tensor(tensor, sizes, generator) for tensor in spec.tensors}
    return Inputs(q, k, v, tensors, dout, dlse, keywords)


def draw_lengths(spec: Spec, batch: int, longest: int, generator: torch.Generator) -> list[int]:
    """Lengths of the sequences: equal in a batch; packed, the first is the longest."""
    if not spec.is_varlen:
        return [longest] * batch
    return [longest, *torch.randint(0, longest + 1, (max(0, batch - 1),), generator=generator).tolist()][:batch]


def starts(lengths: list[int]) -> Tensor:
    """cu_seqlens of sequences."""
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def draw_tensor(tensor: Declared, sizes: dict[str, int], generator: torch.Generator) -> Tensor:
    """One declared tensor."""
    shape = tuple(extent_at(extent, sizes) for extent in tensor.shape)
    if tensor.dtype == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    if tensor.dtype == "i32":
        low, high = (int(end) for end in ends_at(tensor, sizes) or (0, max(0, sizes["len_kv"] - 1)))
        drawn = torch.randint(low, max(low, high) + 1, shape, generator=generator).to(torch.int32)
    else:
        drawn = draw_floats(tensor, shape, sizes, generator).to(DTYPES[tensor.dtype])
    return drawn.sort(dim=-1).values if tensor.is_sorted and shape else drawn


def draw_floats(tensor: Declared, shape: tuple[int, ...], sizes: dict[str, int], generator: torch.Generator) -> Tensor:
    """Normal, or uniform in the declared range."""
    ends = ends_at(tensor, sizes)
    if ends is None:
        return torch.randn(shape, generator=generator) * WIDTH
    low, high = ends
    return low + (high - low) * torch.rand(shape, generator=generator)
