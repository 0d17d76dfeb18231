"""A batch of sequences of one length, or the part of them that is at hand."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.cut import Rows, Whole, blocks, times
from attnspec.backends.cute.kernel.work import Sequence, Sequences, Sizes, again


@dataclass(frozen=True)
class Facts:
    """rows, keys: at hand, of every sequence; the first of them at the global positions q_first, kv_first."""

    rows: Any
    keys: Any
    q_first: Any
    kv_first: Any


def sequences(rows: Any, keys: Any, q_first: Any, kv_first: Any) -> Sequences:
    """All sequences alike: an axis of query blocks for each of the batch."""
    return Sequences(Facts(rows, keys, q_first, kv_first), _blocks, _lanes, _find, _again)


def _blocks(rows: int | Rows | Whole, facts: Facts, batch: Any) -> Any:
    return blocks(facts.rows, rows)


def _lanes(sizes: Sizes) -> Any:
    return sizes.batch


def _find(rows: int | Rows | Whole, sizes: Sizes, facts: Facts, lane: Any, block: Any) -> tuple[Sequence, Any]:
    return Sequence(
        sizes, lane, facts.rows, facts.keys, facts.q_first, facts.kv_first, 0, lane, 0, lane, 0, lane, 0, lane
    ), times(block, rows)


def _again(facts: Facts) -> Facts:
    return Facts(*map(again, (facts.rows, facts.keys, facts.q_first, facts.kv_first)))
