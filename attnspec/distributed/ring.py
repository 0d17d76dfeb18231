"""Keys go round: in step s a rank works on the keys of the rank s further on, while those of step s + 1 travel.

A rank sends its own keys straight to whoever sees them, and only the rows that they see; what a pair of ranks does not see is
neither sent nor computed. Gradients of keys come back the same way, in f32, and are added by their owner in order of steps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnspec.distributed.compute import Backward, Forward, Variant
from attnspec.distributed.keys import Keys, KeySums
from attnspec.distributed.pieces import Piece
from attnspec.distributed.plan import Plan, row_in
from attnspec.distributed.ranks import Pending, Ranks
from attnspec.runtime.parts import Partial


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


def send_keys(ranks: Ranks, plan: Plan, keys: Keys, step: int) -> Travel:
    """Start what travels in a step. Step `size` has nothing left."""
    if step >= ranks.size:
        return Travel((), None, Pending(ranks, "", [], [], []))
    owner, reader = (ranks.rank + step) % ranks.size, (ranks.rank - step) % ranks.size
    wanted, given = plan.needs.get((ranks.rank, owner), ()), plan.needs.get((reader, ranks.rank), ())
    rows = sum(piece.count for piece in wanted)
    buffer = keys.room(rows) if rows else None
    sends = [(reader, keys.beside([piece.rows for piece in given]))] if given else []
    receives = [(owner, buffer)] if buffer is not None else []
    return Travel(wanted, buffer, ranks.exchange(f"passing keys in step {step}", sends, receives))


def forward(ranks: Ranks, plan: Plan, variant: Variant, query: Tensor, keys: Keys) -> Partial:
    """Results of a rank's rows. keys: its own."""
    state = Forward.of(variant, query)
    travel = send_keys(ranks, plan, keys, 1)
    state.add(plan.parts.get((ranks.rank, ranks.rank), ()), keys, own_row)
    for step in range(1, ranks.size):
        travel.pending.wait()
        now, travel = travel, send_keys(ranks, plan, keys, step + 1)
        if now.buffer is not None:
            owner = (ranks.rank + step) % ranks.size
            state.add(plan.parts[ranks.rank, owner], Keys.of(now.buffer, variant.head_dim), now.locate)
    return state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)


@dataclass(frozen=True)
class Return:
    """Gradients of keys on their way home: `buffer` is what comes for `pieces` of the rank's own."""

    pieces: tuple[Piece, ...]
    buffer: Tensor | None
    pending: Pending

    def add_to(self, dkeys: KeySums) -> None:
        """Wait, and add."""
        self.pending.wait()
        if self.buffer is None:
            return
        start = 0
        for piece in self.pieces:
            dkeys.add_beside(piece.row, self.buffer[:, start : start + piece.count])
            start += piece.count


def send_gradients(ranks: Ranks, plan: Plan, keys: Keys, found: Tensor | None, step: int) -> Return:
    """Start the way home of a step's gradients. keys: the rank's own; found: gradients of those that came in that step."""
    owner, reader = (ranks.rank + step) % ranks.size, (ranks.rank - step) % ranks.size
    lent = plan.needs.get((reader, ranks.rank), ())
    rows = sum(piece.count for piece in lent)
    buffer = keys.room(rows, torch.float32) if rows else None
    sends = [(owner, found)] if found is not None else []
    receives = [(reader, buffer)] if buffer is not None else []
    return Return(lent, buffer, ranks.exchange(f"returning gradients in step {step}", sends, receives))


def backward(ranks: Ranks, plan: Plan, state: Backward, keys: Keys) -> KeySums:
    """Gradients of a rank's own keys; those of its rows and of tensors are in `state`."""
    dkeys = KeySums(keys)
    travel = send_keys(ranks, plan, keys, 1)
    state.add(plan.parts.get((ranks.rank, ranks.rank), ()), keys, own_row, dkeys)
    home: Return | None = None
    for step in range(1, ranks.size):
        travel.pending.wait()
        now, travel = travel, send_keys(ranks, plan, keys, step + 1)
        found = None
        if now.buffer is not None:
            came = Keys.of(now.buffer, state.variant.head_dim)
            sums, owner = KeySums(came), (ranks.rank + step) % ranks.size
            state.add(plan.parts[ranks.rank, owner], came, now.locate, sums)
            found = sums.beside()
        if home is not None:
            home.add_to(dkeys)
        home = send_gradients(ranks, plan, keys, found, step)
    if home is not None:
        home.add_to(dkeys)
    state.finish([piece for piece in plan.queries if piece.rank == ranks.rank], keys)
    return dkeys
