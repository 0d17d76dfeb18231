"""All keys on every rank: each run of rows meets its keys in one call, in tiles that lie as they do on one process.

So results have the bits of one process. Gradients of keys go home in f32 and are added there in order of ranks.
"""

from bisect import bisect_right
from collections.abc import Sequence

import torch
from torch import Tensor

from attnspec.distributed.compute import Backward, Forward, Variant
from attnspec.distributed.keys import Keys, KeySums
from attnspec.distributed.layout import SequenceLayout
from attnspec.distributed.pieces import Piece
from attnspec.distributed.plan import Part, Plan
from attnspec.distributed.ranks import Ranks
from attnspec.runtime.parts import Partial


def gather_rows(ranks: Ranks, layout: SequenceLayout, shard: Tensor, what: str) -> Tensor:
    """The whole of something sharded along its first axis, in order of position. Short shards travel with padding."""
    longest = max(layout.counts)
    padded = shard
    if len(shard) < longest:
        padded = torch.cat([shard, shard.new_zeros(longest - len(shard), *shard.shape[1:])])
    gathered = ranks.all_gather(f"gathering {what}", padded)
    if min(layout.counts) == longest:
        return layout.by_position(gathered.flatten(0, 1))
    return torch.cat([gathered[span.rank, span.row : span.row + span.count] for span in layout.spans] or [gathered[0, :0]])


def gather_keys(ranks: Ranks, plan: Plan, keys: Keys) -> Keys:
    """Those of a rank as (batch, length, ...) of all."""
    both = keys.beside([slice(0, keys.count)])
    whole = gather_rows(ranks, plan.layout_kv, both.transpose(0, 1), "keys").transpose(0, 1).contiguous()
    return Keys.of(whole, keys.k.shape[-1])


def whole_parts(ranks: Ranks, plan: Plan, starts: Sequence[int] | None) -> list[Part]:
    """One part for each piece of the rank's rows: all keys between the first and the last that it sees, placed in the whole."""
    mine = sorted((piece for piece in plan.queries if piece.rank == ranks.rank), key=lambda piece: piece.row)
    rows = [piece.row for piece in mine]
    found: dict[int, list[Part]] = {}
    for owner in range(ranks.size):
        for part in plan.parts.get((ranks.rank, owner), ()):
            found.setdefault(bisect_right(rows, part.queries.row) - 1, []).append(part)
    parts = []
    for number, seen in sorted(found.items()):
        first, last = min(part.keys.first for part in seen), max(part.keys.last for part in seen)
        sequence = mine[number].sequence
        row = first + (starts[sequence] if starts is not None else 0)
        parts.append(Part(mine[number], Piece(sequence, first, last, ranks.rank, row), False))
    return parts


def row_of(run: Piece) -> int:
    """Where a run of keys starts in the whole."""
    return run.row


def forward(
    ranks: Ranks, plan: Plan, variant: Variant, query: Tensor, keys: Keys, starts: Sequence[int] | None = None
) -> Partial:
    """Results of a rank's rows. keys: its own."""
    state = Forward.of(variant, query)
    whole = gather_keys(ranks, plan, keys)
    state.add(whole_parts(ranks, plan, starts), whole, row_of)
    return state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)


def backward(ranks: Ranks, plan: Plan, state: Backward, keys: Keys, starts: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """Gradients of a rank's own keys, f32; those of its rows and of tensors are in `state`."""
    whole = gather_keys(ranks, plan, keys)
    dwhole = KeySums(whole)
    state.add(whole_parts(ranks, plan, starts), whole, row_of, dwhole)
    state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)
    counts = plan.layout_kv.counts
    by_rank = plan.layout_kv.by_rank(dwhole.beside().transpose(0, 1))
    mine = counts[ranks.rank]
    came = ranks.all_to_all("returning gradients", by_rank, counts, [mine] * ranks.size)
    found = Keys.of(came.view(ranks.size, mine, *came.shape[1:]).sum(0).transpose(0, 1), keys.k.shape[-1])
    return found.k, found.v
