"""A case run by flash-attn-4 in the emulator."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from tests.peers.cases import Case
from tests.peers.flash_attn_4 import emulated
from tests.peers.float64 import Drawn, Results


def attention(case: Case, drawn: Drawn, launch: Callable[..., Any], backward: bool, architecture: str = "sm_100") -> Results:
    """By its public functions; results packed, as the float64 ones."""
    with emulated(launch, case.processors, case.pairs, architecture):
        leaves = {"q": drawn.q, "k": drawn.k, "v": drawn.v} | ({} if drawn.sink is None else {"sink": drawn.sink})
        leaves = {name: leaf.clone().requires_grad_(backward) for name, leaf in leaves.items()}
        out, lse = call(case, **leaves)
        grads: dict[str, Tensor] = {}
        if backward:
            out.backward(drawn.grad.reshape(out.shape))
            grads = {name: found for name, leaf in leaves.items() if (found := leaf.grad) is not None}
        return Results(out.detach().flatten(0, -3), packed(lse.detach()), grads)


def call(case: Case, q: Tensor, k: Tensor, v: Tensor, sink: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """out and lse, with the graph for their gradients."""
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    options: dict[str, Any] = {
        "causal": case.causal, "window_size": case.window, "softcap": case.softcap, "learnable_sink": sink,
        "num_splits": case.splits, "deterministic": case.deterministic, "return_lse": True,
    }  # fmt: skip
    if len(case.lengths) > 1:
        starts = [torch.tensor([0, *accumulate(pair[side] for pair in case.lengths)], dtype=torch.int32) for side in (0, 1)]
        longest = [max(pair[side] for pair in case.lengths) for side in (0, 1)]
        return flash_attn_varlen_func(q, k, v, None, *starts, *longest, **options)
    q, k, v = (one.unflatten(0, (case.batch, -1)) for one in (q, k, v))
    if case.page:
        k, v, table = pages(case, k, v)
        return flash_attn_varlen_func(q, k, v, page_table=table, **options)
    return flash_attn_func(q, k, v, **options)


def pages(case: Case, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values in pages that lie in another order, and the table that says where."""
    count = k.shape[1] // case.page
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    k, v = (one.reshape(count, case.page, *one.shape[2:])[order].contiguous() for one in (k, v))
    return k, v, torch.argsort(order).to(torch.int32)[None].contiguous()


def packed(lse: Tensor) -> Tensor:
    """(batch, heads, queries), or packed already, to (heads, tokens)."""
    return lse if lse.ndim == 2 else lse.transpose(0, 1).flatten(1)
