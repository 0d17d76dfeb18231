"""Tensors cut over ranks, and put together again."""

import torch
from torch import Tensor

from attnspec.distributed.all_gather import gather_rows
from attnspec.distributed.layout import SequenceLayout
from attnspec.distributed.ranks import Ranks
from attnspec.errors import ArgumentError


def shard(whole: Tensor, layout: SequenceLayout, rank: int, dim: int = 1) -> Tensor:
    """A rank's positions of a whole tensor, along an axis; differentiable."""
    if whole.shape[dim] != layout.length:
        raise ArgumentError(f"shard: axis {dim} has {whole.shape[dim]} positions, the layout {layout.length}")
    return layout.own(whole, rank, dim)


def unshard(part: Tensor, layout: SequenceLayout, ranks: Ranks, dim: int = 1) -> Tensor:
    """The whole tensor on every rank, in order of position; for looking at results, not for losses."""
    if part.requires_grad and torch.is_grad_enabled():
        why = "take the loss of a shard where it is, and add up losses over the ranks"
        raise ArgumentError(f"unshard: it has no gradient: detach() first; {why}")
    if part.shape[dim] != layout.counts[ranks.rank]:
        found = f"axis {dim} has {part.shape[dim]} positions"
        raise ArgumentError(f"unshard: {found}, the layout gives rank {ranks.rank} {layout.counts[ranks.rank]}")
    return gather_rows(ranks, layout, part.movedim(dim, 0), "shards").movedim(0, dim)
