"""Tiles of a sequence: which exist, where their elements are, and how they are loaded and stored.

Every tile is padded to its whole size, so that matrix products have one shape and a row's bits do not depend on how many
rows or sequences there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from attnspec.backends.layout import Layout, Segment
from attnspec.backends.reference.operations import zeros
from torch import Tensor

Ranges = Sequence[tuple[Tensor | int, Tensor | int]]  # half-open, global key positions, one a head or one for all
NONE = torch.empty(0)


@dataclass(frozen=True)
class Place:
    """Where a tile lies, and the values there of the names that expressions use, to broadcast over (heads, query, kv).

    first_row, last_row: half-open rows of the sequence at hand. is_full: every pair of the tile is visible and inside.
    """

    layout: Layout
    segment: Segment
    first_row: int
    last_row: int
    batch: Tensor
    heads: Tensor
    kv_heads: Tensor
    b: Tensor
    len_q: Tensor
    len_kv: Tensor
    h: Tensor
    hkv: Tensor
    q: Tensor
    q_first: Tensor
    q_last: Tensor
    first_key: int = 0
    last_key: int = 0
    kv: Tensor = NONE
    is_full: bool = False

    @cached_property
    def inside(self) -> Tensor:
        """True where both the row and the key are of the sequence and at hand."""
        row_end = self.segment.q_offset + self.segment.count_q
        key_end = self.segment.kv_offset + self.segment.count_kv
        return (self.q < row_end) & (self.kv < key_end)

    @cached_property
    def wide(self) -> "Place":
        """The same with 64-bit values, for range ends that may lie past 32 bits."""
        names = ("batch", "heads", "kv_heads", "b", "len_q", "len_kv", "h", "hkv", "q_first", "q_last")
        return replace(self, **{name: getattr(self, name).to(torch.int64) for name in names})


def query_tiles(layout: Layout, segment: Segment, tile: int) -> Iterator[Place]:
    """The query tiles of a sequence, first to last; `kv` is yet to be given."""

    def number(value: int) -> Tensor:
        return torch.tensor(value, dtype=torch.int32)

    h = torch.arange(layout.heads, dtype=torch.int32)[:, None, None]
    for first in range(0, segment.count_q, tile):
        last = min(first + tile, segment.count_q)
        start = segment.q_offset + first
        yield Place(
            layout=layout,
            segment=segment,
            first_row=first,
            last_row=last,
            batch=number(layout.batch),
            heads=number(layout.heads),
            kv_heads=number(layout.kv_heads),
            b=number(segment.b),
            len_q=number(segment.len_q),
            len_kv=number(segment.len_kv),
            h=h,
            hkv=h // (layout.heads // max(1, layout.kv_heads)),
            q=torch.arange(start, start + tile, dtype=torch.int32)[None, :, None],
            q_first=number(start),
            q_last=number(segment.q_offset + last - 1),
        )


def key_tiles(rows: Place, tile: int, seen: Ranges, hidden: Ranges) -> Iterator[Place]:
    """The key tiles that some row of a query tile sees, first to last, on any head."""
    segment = rows.segment
    firsts = torch.arange(0, segment.count_kv, tile, dtype=torch.int64)
    lasts = (firsts + tile).clamp(max=segment.count_kv)
    starts, ends = firsts + segment.kv_offset, lasts + segment.kv_offset
    visited = torch.nonzero(meets(seen, starts, ends)).flatten().tolist()
    partial = meets(hidden, starts, ends)
    is_whole = rows.last_row - rows.first_row == rows.q.shape[1]
    for number in visited:
        first, last = number * tile, min((number + 1) * tile, segment.count_kv)
        start = segment.kv_offset + first
        kv = torch.arange(start, start + tile, dtype=torch.int32)[None, None, :]
        is_full = is_whole and last - first == tile and not bool(partial[number])
        yield replace(rows, first_key=first, last_key=last, kv=kv, is_full=is_full)


def meets(ranges: Ranges, starts: Tensor, ends: Tensor) -> Tensor:
    """Which tiles [start, end) share a position with a range, on any head."""
    found = torch.zeros(starts.shape, dtype=torch.bool)
    for first, last in ranges:
        low, high = (torch.as_tensor(edge).to(torch.int64).reshape(-1, 1) for edge in (first, last))
        found |= (torch.maximum(low, starts) < torch.minimum(high, ends)).any(0)
    return found


def load_rows(array: Tensor, at: Place) -> Tensor:
    """Rows of q, out or dout as (heads, tile, width) f32, zeros past the end."""
    return padded(array[at.segment.rows][at.first_row : at.last_row], at.q.shape[1])


def load_keys(array: Tensor, at: Place) -> Tensor:
    """Keys or values as (heads, tile, width) f32, zeros past the end; a head's group shares them."""
    tile = padded(array[at.segment.keys][at.first_key : at.last_key], at.kv.shape[2])
    return tile.repeat_interleave(at.layout.heads // at.layout.kv_heads, 0)


def padded(part: Tensor, tile: int) -> Tensor:
    """(count, heads, width) of any dtype as (heads, tile, width) f32."""
    whole = zeros(part.shape[1], tile, part.shape[2])
    whole[:, : len(part)] = part.transpose(0, 1)
    return whole


def row_values(array: Tensor, at: Place) -> Tensor:
    """Where one number a row of a tile lies in lse or dlse: a view (heads, rows)."""
    if isinstance(at.segment.rows, slice):
        return array[:, at.segment.rows][:, at.first_row : at.last_row]
    return array[at.segment.rows][:, at.first_row : at.last_row]


def load_row_values(array: Tensor, at: Place) -> Tensor:
    """One number a row as (heads, tile, 1), zeros past the end."""
    whole = zeros(array.shape[-2], at.q.shape[1], 1)
    whole[:, : at.last_row - at.first_row, 0] = row_values(array, at)
    return whole


def store_rows(array: Tensor, at: Place, value: Tensor) -> None:
    """Write (heads, tile, width), less the padding."""
    rows = at.last_row - at.first_row
    array[at.segment.rows][at.first_row : at.last_row] = value[:, :rows].transpose(0, 1)


def store_row_values(array: Tensor, at: Place, value: Tensor) -> None:
    """Write (heads, tile, 1), less the padding."""
    row_values(array, at).copy_(value[:, : at.last_row - at.first_row, 0])


def add_keys(array: Tensor, at: Place, value: Tensor) -> None:
    """Add (heads, tile, width) to a gradient of k or v, a group's heads together, less the padding."""
    grouped = value.reshape(at.layout.kv_heads, -1, *value.shape[1:]).sum(1)
    array[at.segment.keys][at.first_key : at.last_key] += grouped[:, : at.last_key - at.first_key].transpose(0, 1)


def weigh(weight: Tensor, seen: Tensor, value: Tensor) -> Tensor:
    """weight @ value over the pairs seen: what a row does not see adds nothing to it, be it NaN or infinite.

    weight (heads, rows, columns), 0 where not seen; value (heads, columns, width).
    """
    finite = value.isfinite()
    if finite.all():
        return weight @ value
    total = weight @ torch.where(finite, value, 0.0)
    for column in torch.nonzero((~finite).any(2).any(0)).flatten().tolist():
        poison = torch.where(finite[:, column], 0.0, value[:, column])[:, None, :]
        total += torch.where(seen[:, :, column, None], weight[:, :, column, None] * poison, 0.0)
    return total
