"""What a rank computes with keys at hand: parts of its rows, forward and backward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnspec.distributed.merge import Merged, empty
from attnspec.distributed.pieces import Piece
from attnspec.distributed.plan import Part
from attnspec.distributed.visible import Sizes
from attnspec.runtime.call import Call, Gradients, Program
from attnspec.runtime.parts import Partial, Place, backward_part, forward_part, part_call

Locate = Callable[[Piece], int]  # where a run of keys starts in the buffer at hand


@dataclass(frozen=True)
class Variant:
    """The programs and declared tensors (whole) of a call. `bare` leaves the sink out; None where there is none.

    sizes: of the whole call, heads as these programs see them.
    """

    program: Program
    bare: Program | None
    tensors: tuple[Tensor, ...]
    sizes: Sizes
    head_dim: int
    width_v: int
    deterministic: bool

    def call(self, part: Part, query: Tensor, keys: Tensor) -> Call:
        """A part's call. keys: (batch, rows, kv_heads, head_dim + width_v)."""
        sequence, tensors = part.queries.sequence, self.tensors
        if self.sizes.is_packed:
            tensors = (*tensors, torch.full((), sequence, dtype=torch.int32, device=query.device))
        lengths = self.sizes.lengths_q[sequence], self.sizes.lengths_kv[sequence]
        place = Place(part.queries.first, part.keys.first, *lengths)
        key, value = keys[..., : self.head_dim], keys[..., self.head_dim :]
        return part_call(query[:, part.queries.rows], key, value, tensors, place, self.deterministic)


@dataclass
class Forward:
    """A rank's rows on their way to results. started: pieces that have a part, by their first row; it has the sink."""

    variant: Variant
    query: Tensor
    merged: Merged
    started: set[int] = field(default_factory=set)

    @staticmethod
    def of(variant: Variant, query: Tensor) -> "Forward":
        """Nothing done yet."""
        return Forward(variant, query, empty(query, variant.width_v))

    def add(self, parts: Sequence[Part], buffer: Tensor, locate: Locate) -> None:
        """Compute parts, and join them to what there is."""
        for part in parts:
            row = locate(part.keys)
            self.add_one(part, buffer[:, row : row + part.keys.count])

    def add_one(self, part: Part, keys: Tensor) -> None:
        """One part."""
        call = self.variant.call(part, self.query, keys)
        is_first = part.queries.row not in self.started
        program = self.variant.program if is_first else self.variant.bare or self.variant.program
        found = forward_part(program, call)
        self.started.add(part.queries.row)
        (self.merged.put if is_first else self.merged.add)(part.queries, found)

    def finish(self, pieces: Sequence[Piece], keys: Tensor) -> Merged:
        """Results; rows that see no key at all have their sink yet to come."""
        if self.variant.bare is not None:
            for part in keyless(pieces, self.started):
                self.add_one(part, keys[:, :0])
        return self.merged


@dataclass
class Backward:
    """A rank's gradients on their way: dq f32; tensors: sums a declared tensor, None where nothing came."""

    variant: Variant
    query: Tensor
    whole: Merged
    dout: Tensor
    dlse: Tensor
    dq: Tensor
    tensors: list[Tensor | None]
    started: set[int] = field(default_factory=set)

    @staticmethod
    def of(variant: Variant, query: Tensor, whole: Merged, dout: Tensor, dlse: Tensor) -> "Backward":
        """Nothing done yet."""
        dq = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
        return Backward(variant, query, whole, dout, dlse, dq, [None] * len(variant.tensors))

    def add(self, parts: Sequence[Part], buffer: Tensor, locate: Locate, dkeys: Tensor) -> None:
        """Add what parts give; dkeys: the sum of gradients of the buffer, f32."""
        for part in parts:
            row = locate(part.keys)
            rows = slice(row, row + part.keys.count)
            found = self.add_one(part, buffer[:, rows])
            dkeys[:, rows, :, : self.variant.head_dim] += found.dk
            dkeys[:, rows, :, self.variant.head_dim :] += found.dv

    def add_one(self, part: Part, keys: Tensor) -> Gradients:
        """One part, its gradients of the keys left to the caller."""
        call, at = self.variant.call(part, self.query, keys), part.queries
        is_first = at.row not in self.started
        program = self.variant.program if is_first else self.variant.bare or self.variant.program
        self.started.add(at.row)
        found = backward_part(program, call, self.whole.rows(at), self.dout[:, at.rows], self.dlse[..., at.rows])
        self.dq[:, at.rows] += found.dq
        for number, value in enumerate(found.tensors[: len(self.tensors)]):
            if value is not None:
                before = self.tensors[number]
                self.tensors[number] = value if before is None else before + value
        return found

    def finish(self, pieces: Sequence[Piece], keys: Tensor) -> None:
        """The sinks of rows that see no key."""
        if self.variant.bare is not None:
            for part in keyless(pieces, self.started):
                self.add_one(part, keys[:, :0])


def keyless(pieces: Sequence[Piece], started: set[int]) -> list[Part]:
    """Parts without keys for the pieces that had none."""
    left = [piece for piece in pieces if piece.row not in started]
    return [Part(piece, Piece(piece.sequence, 0, 0, piece.rank, 0), True) for piece in left]


def partial_of(merged: Merged) -> Partial:
    """All rows."""
    return Partial(merged.out, merged.lse, merged.lost)
