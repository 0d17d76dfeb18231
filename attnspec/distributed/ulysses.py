"""Heads for sequence: an all-to-all gives each rank whole sequences of some heads, and one gives the rows back.

Between the two is the plain call of one process, so a row of out has its bits.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnspec.distributed.compute import Backward, Forward, Variant
from attnspec.distributed.keys import Keys, KeySums
from attnspec.distributed.layout import SequenceLayout, contiguous
from attnspec.distributed.pieces import Piece, pieces
from attnspec.distributed.plan import Part, Plan
from attnspec.distributed.ranks import Ranks
from attnspec.errors import ArgumentError
from attnspec.runtime.parts import Partial


def check_heads(heads: int, kv_heads: int, ranks: int) -> None:
    """Heads that divide; key/value heads may be fewer than ranks, and then several ranks hold one."""
    if heads % ranks or (kv_heads % ranks and ranks % kv_heads):
        found = f"{heads} query heads and {kv_heads} key/value heads do not divide over {ranks} ranks"
        raise ArgumentError(f"strategy: ulysses: {found}; 'ring' and 'all_gather' take any number of heads")


def heads_of(rank: int, heads: int, ranks: int) -> slice:
    """The heads of a rank; of fewer heads than ranks, the one that it shares with its neighbours."""
    first = rank * heads // ranks
    return slice(first, first + max(1, heads // ranks))


def to_heads(ranks: Ranks, layout: SequenceLayout, rows: Tensor, what: str) -> Tensor:
    """(batch, rows, heads, width) of a shard as (batch, length, its heads, width)."""
    heads, own = rows.shape[2], layout.counts[ranks.rank]
    by_row = rows.transpose(0, 1)
    sent = torch.cat([by_row[:, :, heads_of(rank, heads, ranks.size)] for rank in range(ranks.size)])
    came = ranks.all_to_all(f"exchanging heads of {what}", sent, [own] * ranks.size, layout.counts)
    return layout.by_position(came).transpose(0, 1).contiguous()


def to_rows(ranks: Ranks, layout: SequenceLayout, whole: Tensor, heads: int, what: str) -> Tensor:
    """The way back: (batch, length, its heads, width) as (batch, rows, heads, width); of a shared head, the sum."""
    own = layout.counts[ranks.rank]
    by_row = layout.by_rank(whole.transpose(0, 1))
    came = ranks.all_to_all(f"exchanging rows of {what}", by_row, layout.counts, [own] * ranks.size)
    came = came.view(ranks.size, own, *came.shape[1:])
    if heads < ranks.size:  # in order of ranks, so that the sum has the same bits on every run
        came = came.view(heads, ranks.size // heads, *came.shape[1:]).sum(1)
    return torch.cat(list(came), 2).transpose(0, 1).contiguous()


def by_heads(values: Tensor) -> Tensor:
    """(batch, heads, rows) as (batch, rows, heads, 1), and back."""
    return values.transpose(1, 2).unsqueeze(-1) if values.dim() == 3 else values.squeeze(-1).transpose(1, 2).contiguous()


def whole_parts(plan: Plan, starts_q: Sequence[int] | None, starts_kv: Sequence[int] | None) -> list[Part]:
    """Each sequence, whole."""
    rows = pieces(contiguous(plan.layout_q.length, 1), starts_q)
    keys = {piece.sequence: piece for piece in pieces(contiguous(plan.layout_kv.length, 1), starts_kv)}
    return [Part(piece, keys.get(piece.sequence, Piece(piece.sequence, 0, 0, 0, 0)), False) for piece in rows]


def own_row(run: Piece) -> int:
    """Where a sequence's keys start."""
    return run.row


Starts = tuple[Sequence[int] | None, Sequence[int] | None]


def keys_to_heads(ranks: Ranks, plan: Plan, keys: Keys) -> Keys:
    """A rank's keys as all of its heads."""
    return Keys.of(to_heads(ranks, plan.layout_kv, keys.beside([slice(0, keys.count)]), "keys"), keys.k.shape[-1])


def forward(ranks: Ranks, plan: Plan, variant: Variant, query: Tensor, keys: Keys, starts: Starts) -> Partial:
    """Results of a rank's rows."""
    heads = query.shape[2]
    state = Forward.of(variant, to_heads(ranks, plan.layout_q, query, "queries"))
    state.add(whole_parts(plan, *starts), keys_to_heads(ranks, plan, keys), own_row)
    found = state.results.result()

    def values(value: Tensor) -> Tensor:
        return by_heads(to_rows(ranks, plan.layout_q, by_heads(value), heads, "results"))

    out = to_rows(ranks, plan.layout_q, found.out, heads, "results")
    return Partial(out, values(found.lse), None if found.lost is None else values(found.lost))


def backward(ranks: Ranks, plan: Plan, given: Backward, keys: Keys, starts: Starts) -> tuple[Tensor, Tensor]:
    """Gradients of a rank's own keys; those of its rows and of tensors go to `given`."""

    def rows(value: Tensor) -> Tensor:
        return to_heads(ranks, plan.layout_q, value, "results")

    def values(value: Tensor) -> Tensor:
        return by_heads(rows(by_heads(value)))

    results, dout, dlse = given.given
    merged = Partial(rows(results.out), values(results.lse), None if results.lost is None else values(results.lost))
    query = to_heads(ranks, plan.layout_q, given.query, "queries")
    state = Backward.of(given.variant, query, (merged, rows(dout), values(dlse)))
    whole = keys_to_heads(ranks, plan, keys)
    dwhole = KeySums(whole)
    state.add(whole_parts(plan, *starts), whole, own_row, dwhole)
    given.dq.add(0, to_rows(ranks, plan.layout_q, state.dq.result(query), given.query.shape[2], "gradients"))
    given.tensors = state.tensors
    is_shared = keys.k.shape[2] < ranks.size  # then ranks add theirs up
    both = dwhole.beside(torch.float32 if is_shared else keys.k.dtype)
    found = Keys.of(to_rows(ranks, plan.layout_kv, both, keys.k.shape[2], "gradients"), keys.k.shape[-1])
    return found.k, found.v
