"""Results over parts of the keys, joined by their LSE."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnspec.distributed.shares import Held
from attnspec.runtime.parts import Partial


class Results:
    """Results of a rank's rows on their way: parts are held as they are until their rows are put together.

    A row of one part keeps that part's bits. Of several, each is weighed in f32 by its share of the row's sum, and the result
    rounded once to the dtype of out.
    """

    def __init__(self, query: Tensor, width: int, dtype: torch.dtype) -> None:
        batch, count, heads, _ = query.shape
        self.shape, self.dtype, self.device = (batch, count, heads, width), dtype, query.device
        self.held = Held[Partial](count, Partial.rows, one_or_merged)

    def add(self, first: int, found: Partial) -> None:
        """A part's results for rows from `first` on; they are kept, and may be written to."""
        self.held.add(first, first + found.out.shape[1], found)

    def result(self) -> Partial:
        """Of all rows: where that can be, in the memory of a part. A row of no part is 0, its LSE -inf."""
        whole = self.held.whole()
        is_taken = whole is not None and whole.out.dtype == self.dtype
        whole = whole if whole is not None and is_taken else self.room()
        for first, last, parts in self.held.runs():
            if not (is_taken and len(parts) == 1):  # else it is there
                merge(parts, whole.rows(first, last))
        return whole

    def room(self) -> Partial:
        """For the results."""
        batch, count, heads, _ = self.shape
        lse, lost = (torch.empty(batch, heads, count, dtype=torch.float32, device=self.device) for _ in range(2))
        is_exact = self.dtype == torch.float32
        return Partial(torch.empty(self.shape, dtype=self.dtype, device=self.device), lse, lost if is_exact else None)


def one_or_merged(parts: Sequence[Partial]) -> Partial:
    """Results over the keys of all in f32; one alone as it is."""
    if len(parts) == 1:
        return parts[0]
    out, lse, lost = torch.empty_like(parts[0].out, dtype=torch.float32), *(torch.empty_like(parts[0].lse) for _ in range(2))
    found = Partial(out, lse, None if parts[0].lost is None else lost)
    merge(parts, found)
    return found


def merge(parts: Sequence[Partial], room: Partial) -> None:
    """Results over the keys of all into `room`, which may be the memory of one of several."""
    if not parts:
        room.out.zero_()
        room.lse.fill_(-torch.inf)
        if room.lost is not None:
            room.lost.zero_()
    elif len(parts) == 1:
        room.out.copy_(parts[0].out)
        room.lse.copy_(parts[0].lse)
        if room.lost is not None and parts[0].lost is not None:
            room.lost.copy_(parts[0].lost)
    else:
        weights = weigh(parts, room)
        total = parts[0].out * by_row(weights[0])  # one pass: 16 bits become f32 inside of it
        for part, weight in zip(parts[1:-1], weights[1:-1]):
            total.addcmul_(part.out, by_row(weight))
        torch.addcmul(total, parts[-1].out, by_row(weights[-1]), out=room.out)


def weigh(parts: Sequence[Partial], room: Partial) -> Tensor:
    """What of a row's sum is each part's, (parts, batch, heads, rows); lse and lost of all go to `room`.

    A logarithm of a sum is lse + lost; the largest is taken out first. A row that no part sees weighs nothing.
    """
    lse = torch.stack([part.lse for part in parts])
    largest = lse.amax(0)
    exponent = lse - torch.where(largest == -torch.inf, 0.0, largest)
    lost = [part.lost for part in parts if part.lost is not None]
    shares = torch.exp(exponent + torch.stack(lost) if lost else exponent)
    total = shares.sum(0)
    added = torch.log(total)
    torch.add(largest, added, out=room.lse)
    if room.lost is not None:
        room.lost.copy_(torch.where(total == 0, 0.0, largest - room.lse + added))
    return shares / torch.where(total == 0, 1.0, total)


def by_row(values: Tensor) -> Tensor:
    """(batch, heads, rows) to spread over (batch, rows, heads, width)."""
    return values.transpose(1, 2).unsqueeze(-1)
