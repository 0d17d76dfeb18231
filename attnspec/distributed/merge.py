"""Results over parts of the keys, joined by their LSE."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnspec.distributed.pieces import Piece
from attnspec.runtime.parts import Partial


@dataclass(frozen=True)
class Merged:
    """Results of a rank's rows, f32: out (batch, rows, heads, width), lse and lost (batch, heads, rows).

    A row's results are those of its first part until there is a second: one part alone keeps its bits.
    """

    out: Tensor
    lse: Tensor
    lost: Tensor

    def rows(self, piece: Piece) -> Partial:
        """Views of a piece's rows."""
        return Partial(self.out[:, piece.rows], self.lse[..., piece.rows], self.lost[..., piece.rows])

    def put(self, piece: Piece, found: Partial) -> None:
        """The first part of a piece."""
        for mine, new in zip(self.rows(piece).tensors, found.tensors, strict=True):
            mine.copy_(new)

    def add(self, piece: Piece, found: Partial) -> None:
        """One more part."""
        self.put(piece, merge(self.rows(piece), found))


def empty(rows: Tensor, width: int) -> Merged:
    """Room for the results of rows (batch, rows, heads, head_dim)."""
    batch, count, heads, _ = rows.shape
    out = torch.zeros(batch, count, heads, width, dtype=torch.float32, device=rows.device)
    lse = torch.full((batch, heads, count), -torch.inf, dtype=torch.float32, device=rows.device)
    return Merged(out, lse, torch.zeros_like(lse))


def merge(one: Partial, other: Partial) -> Partial:
    """Results over the keys of both. A logarithm of a sum is lse + lost; the larger of the two is taken out first."""
    largest = torch.maximum(one.lse, other.lse)
    shift = torch.where(largest == -torch.inf, 0.0, largest)
    left, right = (torch.exp(part.lse - shift + part.lost) for part in (one, other))
    total = left + right
    divisor = torch.where(total == 0, 1.0, total)
    out = one.out * by_row(left / divisor) + other.out * by_row(right / divisor)
    lse = largest + torch.log(total)
    lost = torch.where(total == 0, 0.0, largest - lse + torch.log(total))
    return Partial(out, lse, lost)


def by_row(values: Tensor) -> Tensor:
    """(batch, heads, rows) to spread over (batch, rows, heads, width)."""
    return values.transpose(1, 2).unsqueeze(-1)
