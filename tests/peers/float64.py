"""Attention and its gradients in float64, sequence by sequence, from the formulas alone; and how far results are from it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.peers.cases import Case


@dataclass(frozen=True)
class Drawn:
    """Inputs, packed: q (tokens, heads, dim); sink (heads,) or None; grad: of the output."""

    q: Tensor
    k: Tensor
    v: Tensor
    sink: Tensor | None
    grad: Tensor


@dataclass(frozen=True)
class Results:
    """out, and lse (heads, tokens), and gradients of q, k, v and the sink."""

    out: Tensor
    lse: Tensor
    grads: dict[str, Tensor]


def draw(case: Case, seed: int = 0) -> Drawn:
    """bf16 inputs, normally distributed; of a batch, its sequences one after the other."""
    generator = torch.Generator().manual_seed(seed)
    queries, keys = (case.batch * sum(pair[side] for pair in case.lengths) for side in (0, 1))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    (heads, groups), (dim, dim_v) = case.heads, case.dims
    sink = normal(heads) if case.sink else None
    q, k, v = normal(queries, heads, dim), normal(keys, groups, dim), normal(keys, groups, dim_v)
    return Drawn(q * case.spread, k, v, sink, normal(queries, heads, dim_v))


def visible(case: Case, queries: int, keys: int) -> Tensor:
    """Which keys a query sees: positions count from the last query and the last key."""
    distance = torch.arange(keys)[None, :] - (torch.arange(queries)[:, None] + keys - queries)
    left, right = case.window
    right = 0 if case.causal else right
    shown = torch.ones(queries, keys, dtype=torch.bool)
    if left is not None:
        shown &= distance >= -left
    if right is not None:
        shown &= distance <= right
    return shown


def attention(case: Case, drawn: Drawn) -> Results:
    """All of it."""
    q, k, v = (tensor.double().requires_grad_() for tensor in (drawn.q, drawn.k, drawn.v))
    sink = None if drawn.sink is None else drawn.sink.double().requires_grad_()
    outs, lses = [], []
    first_query = first_key = 0
    for queries, keys in case.lengths * case.batch:
        rows, columns = slice(first_query, first_query + queries), slice(first_key, first_key + keys)
        first_query, first_key = rows.stop, columns.stop
        group = case.heads[0] // case.heads[1]
        score = torch.einsum("qhd,khd->hqk", q[rows], k[columns].repeat_interleave(group, 1)) / case.dims[0] ** 0.5
        if case.softcap:
            score = case.softcap * torch.tanh(score / case.softcap)
        score = score.masked_fill(~visible(case, queries, keys), float("-inf"))
        if sink is not None:
            score = torch.cat([score, sink[:, None, None].expand(-1, queries, 1)], -1)
        lse = torch.logsumexp(score, -1)
        weights = torch.where(lse[..., None] == float("-inf"), 0.0, torch.softmax(score, -1))[..., :keys]
        outs.append(torch.einsum("hqk,khd->qhd", weights, v[columns].repeat_interleave(group, 1)))
        lses.append(lse.detach())
    out = torch.cat(outs)
    wanted = {"q": q, "k": k, "v": v} | ({} if sink is None else {"sink": sink})
    grads = torch.autograd.grad(out, list(wanted.values()), drawn.grad.double())
    return Results(out.detach(), torch.cat(lses, -1), dict(zip(wanted, grads, strict=True)))


def distance(found: Tensor, right: Tensor) -> float:
    """Relative Frobenius error."""
    return float((found.double().reshape(right.shape) - right).norm() / right.norm())
