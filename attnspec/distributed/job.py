"""One call of all ranks together: what was agreed, planned and gathered, and how its results and gradients are found."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnspec.distributed import all_gather, ring, ulysses
from attnspec.distributed.compute import Backward, Given, Variant
from attnspec.distributed.keys import Keys
from attnspec.distributed.layout import SequenceLayout
from attnspec.distributed.plan import Plan
from attnspec.distributed.ranks import Ranks
from attnspec.runtime.parts import Partial

Starts = tuple[Sequence[int] | None, Sequence[int] | None]


@dataclass(frozen=True)
class Sharded:
    """A declared tensor that a call gives in shards. number: among the declarations; axis: cut as `layout` cuts it."""

    number: int
    axis: int
    layout: SequenceLayout


@dataclass(frozen=True)
class Job:
    """A call. strategy: "ring", "all_gather" or "ulysses". starts: of packed sequences in q and in k.

    learned: by declaration. is_reduced: gradients of learned tensors that every rank holds whole are summed over the ranks.
    """

    ranks: Ranks
    strategy: str
    plan: Plan
    variant: Variant
    starts: Starts
    learned: tuple[bool, ...]
    sharded: tuple[Sharded, ...]
    is_reduced: bool

    def forward(self, query: Tensor, keys: Keys) -> Partial:
        """Results of this rank's rows. query: (batch, rows, heads, head_dim)."""
        given = self.ranks, self.plan, self.variant, query, keys
        if self.strategy == "ring":
            return ring.forward(*given)
        if self.strategy == "all_gather":
            return all_gather.forward(*given, self.starts[1])
        return ulysses.forward(*given, self.starts)

    def backward(self, query: Tensor, keys: Keys, given: Given) -> tuple[Tensor, tuple[Tensor, Tensor], list[Tensor | None]]:
        """dq, (dk, dv) of this rank, in the dtype of q or in f32; gradients of declared tensors as the ranks give them."""
        state = Backward.of(self.variant, query, given)
        more = self.ranks, self.plan, state, keys
        if self.strategy == "ring":
            dkeys = ring.backward(*more).result()
        elif self.strategy == "all_gather":
            dkeys = all_gather.backward(*more, self.starts[1])
        else:
            dkeys = ulysses.backward(*more, self.starts)
        return state.dq.result(query), dkeys, self.reduce(state.tensors, query.device)

    def reduce(self, found: Sequence[Tensor | None], device: torch.device) -> list[Tensor | None]:
        """Sums over the ranks in one all-reduce: of sharded tensors always, and of them the own shard is kept."""
        shards = {item.number: item for item in self.sharded}
        kind = torch.float64 if device.type == "cpu" else torch.float32
        sums: list[Tensor | None] = [None] * len(found)
        for number, is_learned in enumerate(self.learned):
            if is_learned:
                value = found[number]
                shape = self.variant.tensors[number].shape
                sums[number] = torch.zeros(shape, dtype=kind, device=device) if value is None else value.to(kind)
        shared = [number for number, value in enumerate(sums) if value is not None and (self.is_reduced or number in shards)]
        if shared:
            flat = torch.cat([sums[number].flatten() for number in shared])  # pyright: ignore[reportOptionalMemberAccess]
            total = self.ranks.sum("adding gradients of learned tensors", flat)
            parts = total.split([self.variant.tensors[number].numel() for number in shared])
            for number, part in zip(shared, parts, strict=True):
                whole = part.view(self.variant.tensors[number].shape)
                sums[number] = own_shard(whole, shards[number], self.ranks.rank) if number in shards else whole
        return sums


def own_shard(whole: Tensor, item: Sharded, rank: int) -> Tensor:
    """A rank's rows of a whole tensor."""
    return item.layout.own(whole, rank, item.axis)
