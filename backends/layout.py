"""Where the sequences of a call lie in its tensors."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Segment:
    """One sequence. rows, keys: where it lies in q, and in k and v: a batch number, or a slice of packed tensors.

    count_q, count_kv: rows and keys at hand; q_offset, kv_offset: the global position of the first; len_q, len_kv: whole.
    """

    b: int
    rows: int | slice
    keys: int | slice
    count_q: int
    count_kv: int
    q_offset: int
    kv_offset: int
    len_q: int
    len_kv: int


@dataclass(frozen=True)
class Layout:
    """A call's sizes and sequences. `is_packed`: q is (total, heads, head_dim), else (batch, length, heads, head_dim).

    len_q, len_kv: whole lengths, also where there is no sequence; packed, those of the longest.
    """

    batch: int
    heads: int
    kv_heads: int
    is_packed: bool
    segments: tuple[Segment, ...]
    len_q: int
    len_kv: int
