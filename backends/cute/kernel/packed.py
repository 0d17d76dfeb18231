"""Sequences of any lengths laid end to end, each between two starts (`varlen`)."""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.cut import Rows, Whole, number, over, times
from attnspec.backends.cute.kernel.work import Sequence, Sequences, Sizes, again
from cutlass import Int32, Int64


@dataclass(frozen=True)
class Facts:
    """total_q, total_kv: rows and keys of all sequences. starts_q, starts_kv: int32 tensors, batch + 1 starts."""

    total_q: Any
    total_kv: Any
    starts_q: cute.Tensor
    starts_kv: cute.Tensor


def sequences(total_q: Any, total_kv: Any, starts_q: cute.Tensor, starts_kv: cute.Tensor) -> Sequences:
    """One axis of query blocks for all sequences together."""
    return Sequences(Facts(total_q, total_kv, starts_q, starts_kv), _blocks, _lanes, _find, _again)


def view(tensor: cute.Tensor) -> cute.Tensor:
    """(1, total, heads, width) as (total + 1, total, heads, width), which TMA cuts off at the end of a sequence.

    Row r of a sequence of n rows that ends at row e of the tensor is at (e, total - n + r): what TMA takes for the last row of
    all is the sequence's, beyond which it loads zeros and stores nothing. The view starts `total` rows before the tensor; nothing
    is read there, since the two together are never less than total.
    """
    _, total, heads, width = tensor.shape
    _, row, head, _ = tensor.stride
    start = (tensor.iterator - Int64(total) * row).align(tensor.iterator.alignment)
    return cute.make_tensor(start, cute.make_layout((total + 1, total, heads, width), stride=(row, row, head, 1)))


def _blocks(rows: int | Rows | Whole, facts: Facts, batch: Any) -> Any:
    """Slots for blocks: `_slot` of the end."""
    return over(facts.total_q, rows) + batch


def _lanes(sizes: Sizes) -> Any:
    return Int32(1)


def slot_of(rows: int | Rows | Whole, start: Any, b: Any) -> Any:
    """Slot of the first block of sequence b.

    A sequence of n rows has ceil(n / rows) blocks, and at least that many slots before the next one's; some stay empty.
    """
    return over(start, rows) + b


def _find(rows: int | Rows | Whole, sizes: Sizes, facts: Facts, lane: Any, block: Any) -> tuple[Sequence, Any]:
    b = _sequence_of(number(rows), facts.starts_q, sizes.batch, block)
    start, end = _start(facts.starts_q, b), _start(facts.starts_q, b + 1)
    first, last = _start(facts.starts_kv, b), _start(facts.starts_kv, b + 1)
    count, keys = end - start, last - first
    own = Sizes(sizes.batch, sizes.heads, sizes.kv_heads, count, keys)
    row = times(block - slot_of(rows, start, b), rows)
    zero = Int32(0)
    # A slot without rows has no keys to visit either.
    seen = Int32(cutlass.select_(row < count, keys, zero))
    places = (facts.total_q - count, end, facts.total_kv - keys, last)
    return Sequence(own, b, count, seen, zero, zero, *places, start, zero, first, zero), row


@cute.jit
def _sequence_of(rows: Rows | Whole, starts: cute.Tensor, batch: Int32, block: Int32) -> Int32:
    """The last sequence whose first slot is not after `block`."""
    first, last = Int32(0), batch - 1
    while first < last:
        middle = (first + last + 1) // 2
        is_after = slot_of(rows, _start(starts, middle), middle) > block
        last = Int32(cutlass.select_(is_after, middle - 1, last))
        first = Int32(cutlass.select_(is_after, first, middle))
    return first


def _start(starts: cute.Tensor, b: Any) -> Int32:
    return Int32((starts.iterator + Int64(b)).load())


def _again(facts: Facts) -> Facts:
    return Facts(again(facts.total_q), again(facts.total_kv), facts.starts_q, facts.starts_kv)
