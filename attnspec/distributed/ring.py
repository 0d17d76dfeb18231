"""Keys go round: in step s a rank works on the keys of the rank s further on, while those of step s + 1 travel.

A rank sends its own keys straight to whoever sees them, and only the rows that they see; what a pair of ranks does not see is
neither sent nor computed. Gradients of keys come back the same way, in f32, and are added by their owner in order of steps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnspec.distributed.compute import Backward, Forward, Variant
from attnspec.distributed.merge import Merged
from attnspec.distributed.pieces import Piece
from attnspec.distributed.plan import Plan, row_in
from attnspec.distributed.ranks import Pending, Ranks


@dataclass(frozen=True)
class Travel:
    """Keys on their way: `buffer` is what comes, in order of `needs`; None where nothing does."""

    needs: tuple[Piece, ...]
    buffer: Tensor | None
    pending: Pending

    def locate(self, run: Piece) -> int:
        """Where a run of keys starts in the buffer."""
        return row_in(self.needs, run)


def own_row(run: Piece) -> int:
    """Where a run of keys starts in the rank's own shard."""
    return run.row


def send_keys(ranks: Ranks, plan: Plan, keys: Tensor, step: int) -> Travel:
    """Start what travels in a step. Step `size` has nothing left."""
    if step >= ranks.size:
        return Travel((), None, Pending(ranks, "", [], [], []))
    owner, reader = (ranks.rank + step) % ranks.size, (ranks.rank - step) % ranks.size
    wanted, given = plan.needs.get((ranks.rank, owner), ()), plan.needs.get((reader, ranks.rank), ())
    rows = sum(piece.count for piece in wanted)
    buffer = keys.new_empty(len(keys), rows, *keys.shape[2:]) if rows else None
    sends = [(reader, select(keys, given))] if given else []
    receives = [(owner, buffer)] if buffer is not None else []
    return Travel(wanted, buffer, ranks.exchange(f"passing keys in step {step}", sends, receives))


def select(keys: Tensor, pieces: tuple[Piece, ...]) -> Tensor:
    """The rows of pieces, end to end."""
    return torch.cat([keys[:, piece.rows] for piece in pieces], 1).contiguous()


def forward(ranks: Ranks, plan: Plan, variant: Variant, query: Tensor, keys: Tensor) -> Merged:
    """Results of a rank's rows. keys: (batch, rows, kv_heads, head_dim + width_v), its own."""
    state = Forward.of(variant, query)
    travel = send_keys(ranks, plan, keys, 1)
    state.add(plan.parts.get((ranks.rank, ranks.rank), ()), keys, own_row)
    for step in range(1, ranks.size):
        travel.pending.wait()
        now, travel = travel, send_keys(ranks, plan, keys, step + 1)
        if now.buffer is not None:
            owner = (ranks.rank + step) % ranks.size
            state.add(plan.parts[ranks.rank, owner], now.buffer, now.locate)
    return state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)


@dataclass(frozen=True)
class Return:
    """Gradients of keys on their way home: `buffer` is what comes for `pieces` of the rank's own."""

    pieces: tuple[Piece, ...]
    buffer: Tensor | None
    pending: Pending

    def add_to(self, dkeys: Tensor) -> None:
        """Wait, and add."""
        self.pending.wait()
        if self.buffer is None:
            return
        start = 0
        for piece in self.pieces:
            dkeys[:, piece.rows] += self.buffer[:, start : start + piece.count]
            start += piece.count


def send_gradients(ranks: Ranks, plan: Plan, dkeys: Tensor, found: Tensor | None, step: int) -> Return:
    """Start the way home of a step's gradients. found: those of the keys that came in that step; dkeys: the rank's own."""
    owner, reader = (ranks.rank + step) % ranks.size, (ranks.rank - step) % ranks.size
    lent = plan.needs.get((reader, ranks.rank), ())
    rows = sum(piece.count for piece in lent)
    buffer = dkeys.new_empty(len(dkeys), rows, *dkeys.shape[2:]) if rows else None
    sends = [(owner, found)] if found is not None else []
    receives = [(reader, buffer)] if buffer is not None else []
    return Return(lent, buffer, ranks.exchange(f"returning gradients in step {step}", sends, receives))


def backward(ranks: Ranks, plan: Plan, state: Backward, keys: Tensor) -> Tensor:
    """Gradients of a rank's own keys, f32; those of its rows and of tensors are in `state`."""
    dkeys = torch.zeros(keys.shape, dtype=torch.float32, device=keys.device)
    travel = send_keys(ranks, plan, keys, 1)
    state.add(plan.parts.get((ranks.rank, ranks.rank), ()), keys, own_row, dkeys)
    home: Return | None = None
    for step in range(1, ranks.size):
        travel.pending.wait()
        now, travel = travel, send_keys(ranks, plan, keys, step + 1)
        found = None
        if now.buffer is not None:
            found = torch.zeros(now.buffer.shape, dtype=torch.float32, device=keys.device)
            owner = (ranks.rank + step) % ranks.size
            state.add(plan.parts[ranks.rank, owner], now.buffer, now.locate, found)
        if home is not None:
            home.add_to(dkeys)
        home = send_gradients(ranks, plan, dkeys, found, step)
    if home is not None:
        home.add_to(dkeys)
    state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)
    return dkeys
