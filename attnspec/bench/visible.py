"""How many scores a call's mask shows: what throughput is counted by."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from attnspec.bench.load_flex import load_flex
from attnspec.language.expr import names
from attnspec.language.spec import Spec
from attnspec.runtime.draw_inputs import Inputs

CELLS = 2**26  # scores looked at at once


def visible_scores(spec: Spec, inputs: Inputs) -> int:
    """Scores that the mask shows, of all batch elements and query heads."""
    heads, kv_heads = inputs.q.shape[-2], inputs.k.shape[-2]
    total, batch = 0, len(inputs.q) if not spec.is_varlen else len(inputs.keywords["cu_seqlens_q"]) - 1
    by_batch, by_head = uses(spec, "b") or spec.is_varlen, uses(spec, "h") or uses(spec, "hkv")
    for b, (len_q, len_kv) in enumerate(lengths(spec, inputs)):
        if b and not by_batch:
            break
        mask = None
        if spec.mask is not None:
            tensors = [inputs.tensors[tensor.name] for tensor in spec.tensors]
            mask = load_flex(spec, tensors, batch, heads, kv_heads, len_q, len_kv).mask_mod
        for h in range(heads if by_head else 1):
            found = len_q * len_kv if mask is None else count(mask, b, h, len_q, len_kv, inputs.q.device)
            total += found * (1 if by_head else heads) * (1 if by_batch else batch)
    return total


def uses(spec: Spec, name: str) -> bool:
    """Whether the mask uses a given name."""
    return spec.mask is not None and name in names(spec.mask)


def lengths(spec: Spec, inputs: Inputs) -> Iterator[tuple[int, int]]:
    """Rows and keys of each batch element."""
    if not spec.is_varlen:
        yield from [(inputs.q.shape[1], inputs.k.shape[1])] * len(inputs.q)
        return
    starts = [pairwise(inputs.keywords[name].tolist()) for name in ("cu_seqlens_q", "cu_seqlens_kv")]
    for (first_q, last_q), (first_kv, last_kv) in zip(*starts, strict=True):
        yield last_q - first_q, last_kv - first_kv


def count(mask: Callable[..., Tensor], b: int, h: int, len_q: int, len_kv: int, device: torch.device) -> int:
    """Scores that one batch element's head sees; some rows at a time."""
    keys, total = torch.arange(len_kv, device=device)[None], 0
    step = max(1, CELLS // max(1, len_kv))
    for first in range(0, len_q, step):
        rows = torch.arange(first, min(len_q, first + step), device=device)[:, None]
        total += int(mask(b, h, rows, keys).expand(len(rows), len_kv).sum())
    return total
