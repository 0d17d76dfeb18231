"""What parts give to rows of a buffer, held until it is put together: which parts each row has, and their sum.

A sum is made in f32 and rounded once. Passes over memory are what it costs: what is alone is copied or taken over as it is, and
the last term is added while the result is written.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
MOST_HELD = 4  # times the rows of a buffer that are held; of 16 bits that is twice the buffer in f32


@dataclass(frozen=True)
class Share(Generic[T]):
    """A part's value for the rows [first, last) of a buffer."""

    first: int
    last: int
    value: T


def runs(shares: Sequence[Share[T]], count: int) -> Iterator[tuple[int, int, list[Share[T]]]]:
    """Runs of the rows [0, count) that all have the same shares, in order of rows; each with its shares as they came."""
    cuts = sorted({0, count, *(share.first for share in shares), *(share.last for share in shares)})
    for first, last in pairwise(cuts):
        yield first, last, [share for share in shares if share.first <= first and last <= share.last]


@dataclass
class Held(Generic[T]):
    """The shares of a buffer of `count` rows.

    cut: rows [first, last) of a share's value. join: the value of several, in f32, for shares that hold the same rows.
    """

    count: int
    cut: Callable[[T, int, int], T]
    join: Callable[[Sequence[T]], T]
    shares: list[Share[T]] = field(default_factory=list)
    rows: int = 0

    def add(self, start: int, end: int, value: T) -> None:
        """One more, for the rows [start, end). Many are joined as they come: memory does not go with the number of parts."""
        if start == end:
            return
        self.shares.append(Share(start, end, value))
        self.rows += end - start
        if self.rows > MOST_HELD * self.count:
            self.shares = [Share(first, last, self.join(found)) for first, last, found in self.runs() if found]
            self.rows = sum(share.last - share.first for share in self.shares)

    def runs(self) -> Iterator[tuple[int, int, list[T]]]:
        """Runs of rows, with what each part has for them."""
        for first, last, found in runs(self.shares, self.count):
            yield first, last, [self.cut(share.value, first - share.first, last - share.first) for share in found]

    def whole(self) -> T | None:
        """A share that holds all rows: results can have its memory."""
        return next((share.value for share in self.shares if share.last - share.first == self.count), None)


def add_up(values: Sequence[Tensor], room: Tensor) -> None:
    """The sum of tensors of one shape, each f32 or 16 bits, into `room`, which may be the memory of one of several."""
    if not values:
        room.zero_()
    elif len(values) == 1:
        room.copy_(values[0])
    else:
        torch.add(sum_of(values[:-1]), values[-1], out=room)


def sum_of(values: Sequence[Tensor]) -> Tensor:
    """The sum in f32; of one alone, itself as f32."""
    total = values[0].float()
    for value in values[1:]:
        total = torch.add(total, value)  # one pass: 16 bits become f32 inside of it
    return total


class Sum:
    """A sum by row: what comes is (batch, rows, heads, width) for some of `count` rows. Added in the order in which it comes."""

    def __init__(self, count: int) -> None:
        self.held = Held[Tensor](count, lambda value, first, last: value[:, first:last], one_or_sum)

    def add(self, first: int, value: Tensor) -> None:
        """What rows from `first` on have of a part; it is kept, and may be written to."""
        self.held.add(first, first + value.shape[1], value)

    def into(self, room: Tensor) -> None:
        """All of it into (batch, count, heads, width), rounded to its dtype."""
        for first, last, values in self.held.runs():
            add_up(values, room[:, first:last])

    def result(self, like: Tensor) -> Tensor:
        """All of it, of a tensor's shape and dtype: where that can be, in the memory of a part."""
        whole = self.held.whole()
        if whole is None or whole.dtype != like.dtype:
            whole = torch.empty(like.shape, dtype=like.dtype, device=like.device)
            self.into(whole)
            return whole
        for first, last, values in self.held.runs():
            if len(values) > 1:  # else it is there
                add_up(values, whole[:, first:last])
        return whole


def one_or_sum(values: Sequence[Tensor]) -> Tensor:
    """The sum in f32; one alone as it is."""
    return values[0] if len(values) == 1 else sum_of(values)
