"""What a rank computes with keys at hand: parts of its rows, forward and backward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnspec.distributed.keys import Keys, KeySums
from attnspec.distributed.merge import Results
from attnspec.distributed.pieces import Piece
from attnspec.distributed.plan import Part
from attnspec.distributed.shares import Sum
from attnspec.distributed.visible import Sizes
from attnspec.runtime.call import Call, Gradients, Program
from attnspec.runtime.parts import Partial, Place, backward_part, forward_part, out_dtype, part_call

Locate = Callable[[Piece], int]  # where a run of keys starts in the buffer at hand
Given = tuple[Partial, Tensor, Tensor]  # results over all keys, dout and dlse


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

    def call(self, part: Part, query: Tensor, keys: Keys) -> Call:
        """A part's call."""
        sequence, tensors = part.queries.sequence, self.tensors
        if self.sizes.is_packed:
            tensors = (*tensors, torch.full((), sequence, dtype=torch.int32, device=query.device))
        lengths = self.sizes.lengths_q[sequence], self.sizes.lengths_kv[sequence]
        place = Place(part.queries.first, part.keys.first, *lengths)
        return part_call(query[:, part.queries.rows], keys.k, keys.v, tensors, place, self.deterministic)

    def program_of(self, part: Part) -> Program:
        """A sink joins the part that opens its rows, and no other."""
        return self.program if part.opens else self.bare or self.program


@dataclass
class Forward:
    """A rank's rows on their way to results. opened: pieces that have a part, by their first row."""

    variant: Variant
    query: Tensor
    results: Results
    opened: set[int] = field(default_factory=set)

    @staticmethod
    def of(variant: Variant, query: Tensor) -> "Forward":
        """Nothing done yet."""
        return Forward(variant, query, Results(query, variant.width_v, out_dtype(variant.program, query)))

    def add(self, parts: Sequence[Part], keys: Keys, locate: Locate) -> None:
        """Compute parts, and hold what they give."""
        for part in parts:
            row = locate(part.keys)
            self.add_one(part, keys.rows(row, row + part.keys.count))

    def add_one(self, part: Part, keys: Keys) -> None:
        """One part."""
        found = forward_part(self.variant.program_of(part), self.variant.call(part, self.query, keys))
        if part.opens:
            self.opened.add(part.queries.row)
        self.results.add(part.queries.row, found)

    def finish(self, pieces: Sequence[Piece], keys: Keys) -> Partial:
        """Results; rows that see no key at all have their sink yet to come."""
        if self.variant.bare is not None:
            for part in keyless(pieces, self.opened):
                self.add_one(part, keys.rows(0, 0))
        return self.results.result()


@dataclass
class Backward:
    """A rank's gradients on their way. tensors: sums a declared tensor, None where nothing came.

    kept: what a run of rows was given, laid end to end once for all of its parts.
    """

    variant: Variant
    query: Tensor
    given: Given
    dq: Sum
    tensors: list[Tensor | None]
    opened: set[int] = field(default_factory=set)
    kept: dict[tuple[int, int], Given] = field(default_factory=dict)

    @staticmethod
    def of(variant: Variant, query: Tensor, given: Given) -> "Backward":
        """Nothing done yet."""
        return Backward(variant, query, given, Sum(query.shape[1]), [None] * len(variant.tensors))

    def add(self, parts: Sequence[Part], keys: Keys, locate: Locate, dkeys: KeySums) -> None:
        """Compute parts, and hold what they give. dkeys: of the buffer."""
        for part in parts:
            row = locate(part.keys)
            dkeys.add(row, self.add_one(part, keys.rows(row, row + part.keys.count)))

    def add_one(self, part: Part, keys: Keys) -> Gradients:
        """One part, its gradients of the keys left to the caller."""
        call = self.variant.call(part, self.query, keys)
        found = backward_part(self.variant.program_of(part), call, *self.given_to(part))
        if part.opens:
            self.opened.add(part.queries.row)
        self.dq.add(part.queries.row, found.dq)
        for number, value in enumerate(found.tensors[: len(self.tensors)]):
            if value is not None:
                before = self.tensors[number]
                self.tensors[number] = value if before is None else before + value
        return found

    def given_to(self, part: Part) -> Given:
        """What a part's rows were given, contiguous."""
        first, last = part.queries.row, part.queries.row + part.queries.count
        if (first, last) in self.kept:
            return self.kept[first, last]
        whole, dout, dlse = self.given
        found = whole.rows(first, last).contiguous(), dout[:, first:last].contiguous(), dlse[..., first:last].contiguous()
        if part.opens:
            self.kept[first, last] = found
        return found

    def finish(self, pieces: Sequence[Piece], keys: Keys) -> None:
        """The sinks of rows that see no key."""
        if self.variant.bare is not None:
            for part in keyless(pieces, self.opened):
                self.add_one(part, keys.rows(0, 0))


def keyless(pieces: Sequence[Piece], opened: set[int]) -> list[Part]:
    """Parts without keys for the pieces that had none."""
    left = [piece for piece in pieces if piece.row not in opened]
    return [Part(piece, Piece(piece.sequence, 0, 0, piece.rank, 0), True) for piece in left]
