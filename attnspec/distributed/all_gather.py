"""All keys on every rank: each run of rows meets its keys in one call, in tiles that lie as they do on one process.

So results have the bits of one process. Gradients of keys go home in f32 and are added there in order of ranks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnspec.distributed.compute import Backward, Forward, Variant
from attnspec.distributed.layout import SequenceLayout
from attnspec.distributed.merge import Merged
from attnspec.distributed.pieces import Piece
from attnspec.distributed.plan import Part, Plan
from attnspec.distributed.ranks import Ranks


def gather_rows(ranks: Ranks, layout: SequenceLayout, shard: Tensor, what: str) -> Tensor:
    """The whole of something sharded along its first axis, in order of position. Short shards travel with padding."""
    longest = max(layout.counts)
    padded = shard.new_zeros(longest, *shard.shape[1:])
    padded[: len(shard)] = shard
    gathered = ranks.all_gather(f"gathering {what}", padded)
    parts = torch.cat([gathered[rank, :count] for rank, count in enumerate(layout.counts)])
    whole = torch.empty_like(parts)
    whole[torch.from_numpy(layout.order).to(shard.device)] = parts
    return whole


def gather_keys(ranks: Ranks, plan: Plan, keys: Tensor) -> Tensor:
    """(batch, rows, ...) of a rank as (batch, length, ...) of all."""
    return gather_rows(ranks, plan.layout_kv, keys.transpose(0, 1), "keys").transpose(0, 1).contiguous()


def whole_parts(ranks: Ranks, plan: Plan, starts: Sequence[int] | None) -> list[Part]:
    """One part for each piece of the rank's rows: all keys between the first and the last that it sees, placed in the whole."""
    found: dict[int, list[Part]] = {}
    for owner in range(ranks.size):
        for part in plan.parts.get((ranks.rank, owner), ()):
            found.setdefault(part.queries.row, []).append(part)
    parts = []
    for _, mine in sorted(found.items()):
        first, last = min(part.keys.first for part in mine), max(part.keys.last for part in mine)
        sequence = mine[0].queries.sequence
        row = first + (starts[sequence] if starts is not None else 0)
        parts.append(Part(mine[0].queries, Piece(sequence, first, last, ranks.rank, row), False))
    return parts


def row_of(run: Piece) -> int:
    """Where a run of keys starts in the whole."""
    return run.row


def forward(
    ranks: Ranks, plan: Plan, variant: Variant, query: Tensor, keys: Tensor, starts: Sequence[int] | None = None
) -> Merged:
    """Results of a rank's rows."""
    state = Forward.of(variant, query)
    whole = gather_keys(ranks, plan, keys)
    state.add(whole_parts(ranks, plan, starts), whole, row_of)
    return state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)


def backward(ranks: Ranks, plan: Plan, state: Backward, keys: Tensor, starts: Sequence[int] | None = None) -> Tensor:
    """Gradients of a rank's own keys, f32."""
    whole = gather_keys(ranks, plan, keys)
    dwhole = torch.zeros(whole.shape, dtype=torch.float32, device=keys.device)
    state.add(whole_parts(ranks, plan, starts), whole, row_of, dwhole)
    state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)
    counts = plan.layout_kv.counts
    by_rank = dwhole.transpose(0, 1)[torch.from_numpy(plan.layout_kv.order).to(keys.device)]
    mine = counts[ranks.rank]
    came = ranks.all_to_all("returning gradients", by_rank, counts, [mine] * ranks.size)
    return came.view(ranks.size, mine, *came.shape[1:]).sum(0).transpose(0, 1)
