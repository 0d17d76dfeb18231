"""Keys and values of a rank, which travel side by side, and sums of their gradients."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnspec.distributed.shares import Sum
from attnspec.runtime.call import Gradients


@dataclass(frozen=True)
class Keys:
    """k (batch, rows, kv_heads, head_dim) and v (batch, rows, kv_heads, width_v)."""

    k: Tensor
    v: Tensor

    @staticmethod
    def of(both: Tensor, head_dim: int) -> "Keys":
        """Views of what lies side by side, (batch, rows, kv_heads, head_dim + width_v)."""
        return Keys(both[..., :head_dim], both[..., head_dim:])

    @property
    def count(self) -> int:
        """Rows."""
        return self.k.shape[1]

    def rows(self, first: int, last: int) -> "Keys":
        """Views of some of them."""
        return Keys(self.k[:, first:last], self.v[:, first:last])

    def room(self, count: int, dtype: torch.dtype | None = None) -> Tensor:
        """For so many of them side by side."""
        shape = (len(self.k), count, self.k.shape[2], self.k.shape[3] + self.v.shape[3])
        return torch.empty(shape, dtype=dtype or self.k.dtype, device=self.k.device)

    def beside(self, runs: Sequence[slice]) -> Tensor:
        """The rows of some runs, side by side and end to end."""
        room, start = self.room(sum(run.stop - run.start for run in runs)), 0
        for run in runs:
            rows = slice(start, start + run.stop - run.start)
            torch.cat([self.k[:, run], self.v[:, run]], -1, out=room[:, rows])
            start = rows.stop
        return room


class KeySums:
    """Gradients of keys on their way: what comes for some of their rows is added in the order in which it comes."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.sums = Sum(keys.count), Sum(keys.count)

    def add(self, first: int, found: Gradients) -> None:
        """A part's, for keys from `first` on."""
        self.sums[0].add(first, found.dk)
        self.sums[1].add(first, found.dv)

    def add_beside(self, first: int, both: Tensor) -> None:
        """Those that another rank has summed."""
        found = Keys.of(both, self.keys.k.shape[-1])
        self.sums[0].add(first, found.k)
        self.sums[1].add(first, found.v)

    def result(self) -> tuple[Tensor, Tensor]:
        """dk and dv, in the dtype of keys."""
        return self.sums[0].result(self.keys.k), self.sums[1].result(self.keys.v)

    def beside(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Both as they travel."""
        room = self.keys.room(self.keys.count, dtype)
        found = Keys.of(room, self.keys.k.shape[-1])
        self.sums[0].into(found.k)
        self.sums[1].into(found.v)
        return room
