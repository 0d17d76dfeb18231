"""What a role of the backward is handed beside the plan and the pipes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.bundles import Box


@dataclass(frozen=True)
class BackwardTiles:
    """Memory of a backward kernel. shared: Int32 address of dynamic shared memory; starts: see `Tiles`.

    rows: f32 [query tile of all heads][plane][row], from the pass before; sum_dq: f32 [query tile][column / 4][row][column % 4].
    sums: gradients of learned tensors by name, f32, or `Exact` ones. turns: i32, see the module of that name; None without order.
    dk, dv: the results, (batch, len_kv, kv_heads, width).
    q_columns, k_columns, do_columns: where two CTAs share a work tile, boxes of half of the columns; None where not.
    """

    q: Box
    k: Box
    v: Box
    do: Box
    rows: Any
    sum_dq: Any
    sums: Any
    dk: Any
    dv: Any
    shared: Any
    starts: Any
    turns: Any = None
    q_columns: Any = None
    k_columns: Any = None
    do_columns: Any = None


@dataclass(frozen=True)
class Exact:
    """A sum that any order of adding gives the same bits. tensor: where it ends, f32. words: i64, see `exact_sum`."""

    tensor: Any
    words: Any


@dataclass(frozen=True)
class SinkRead:
    """One place where the sink reads a learned tensor. partial(at): the sink's derivative by it; indices(at): which element."""

    name: str
    partial: Callable[..., Any]
    indices: Callable[..., Any]


@dataclass(frozen=True)
class RowAt:
    """Where a row is: what the sink's expressions name."""

    sizes: Any
    tensors: Any
    b: Any
    h: Any
    hkv: Any


@dataclass(frozen=True)
class LearnedRead:
    """One place where the score reads a learned tensor.

    name: the tensor's; address: how it is addressed (see `Analysed`). partial(score, q, kv, at, key): the score's derivative by
    the element read. indices(q, kv, at, key): which element that is.
    """

    name: str
    address: str
    partial: Callable[..., Any]
    indices: Callable[..., Any]


@dataclass(frozen=True)
class BackwardMods:
    """The variant's functions, as emitted for a thread that has one key and walks queries.

    queries(at): ranges [first, last) of queries that a key tile is seen by; hidden(at): ranges in which it has masked elements.
    key(kv, at): values of one key, computed once. score(score, q, kv, at, key): the new score and its derivative by the
    score before (None where that is 1), or None if unchanged.
    mask(kv, first, at, key): word of the queries from `first` on (see `asking`) that see it, or None. scale(at): softmax scale.
    to_log2: factor from what `score` gives (from q . k itself, where nothing comes between) to log2 units.
    may_hide: a score may be -inf without a mask, by what the file makes of it.
    is_folded: nothing comes between q . k and the exponential but that factor.
    learned: reads of learned tensors in the score. merges: the score is needed with dP, for a share of a learned tensor, or
    since it reads something of every element and its slope is not 1.
    sink(at): logit that joins the denominator, or None where it is not learned; sinks: its reads of learned tensors.
    score_reads, mask_reads, hidden_reads: whether an element of the score, of the mask, or `hidden` needs a load. reads_once:
    `hidden` does, and neither it nor `queries` names a head: both are found once for a group.
    gathers_in_loop: so many instructions go to an element's share of a learned tensor that shares are taken a few at a time.
    """

    queries: Callable[..., Any]
    hidden: Callable[..., Any]
    key: Callable[..., Any]
    score: Callable[..., Any] | None
    mask: Callable[..., Any] | None
    scale: Callable[..., Any]
    to_log2: float
    is_folded: bool
    may_hide: bool = True
    learned: tuple[LearnedRead, ...] = ()
    merges: bool = False
    sink: Callable[..., Any] | None = None
    sinks: tuple[SinkRead, ...] = ()
    score_reads: bool = False
    mask_reads: bool = False
    hidden_reads: bool = False
    reads_once: bool = False
    gathers_in_loop: bool = False
