"""The text of walks: what a person reads in `attnc explain`, and what backends emit."""

import os
import subprocess
import sys

import pytest
from attnspec.lowering.analysis.analyse import analyse
from attnspec.lowering.analysis.analysed import Walk
from attnspec.lowering.analysis.facts import Facts
from attnspec.lowering.analysis.intervals import walks

from attnspec.language.expr import Compare, Expr
from attnspec.language.load import read_spec
from attnspec.language.show_expr import show_expr
from tests.lowering.analysis.masks import DISTANCE, KV, Q, both, compare, integer, op

HEAD = "attention a\nhead_dim 64\n"

KEYS = {
    "causal": (["0 .. q_last + len_kv - len_q + 1"], ["q_first + len_kv - len_q + 1 .. len_kv"]),
    "causal_top_left": (["0 .. q_last + 1"], ["q_first + 1 .. len_kv"]),
    "kv <= q and kv > q - 4096": (["q_first - 4095 .. q_last + 1"], ["q_first + 1 .. len_kv", "0 .. q_last - 4095"]),
    "q // 8 == kv // 8": (
        ["q_first // 8 * 8 .. q_last // 8 * 8 + 8"],
        ["0 .. q_last // 8 * 8", "q_first // 8 * 8 + 8 .. len_kv"],
    ),
    "kv <= q or kv < 7": (["0 .. q_last + 1", "0 .. 7"], ["max(q_first + 1, 7) .. len_kv"]),
    "q < 100": (["0 .. len_kv if q_first <= 99 else 0"], ["0 .. len_kv if q_last >= 100 else 0"]),
    "kv >= 0": (["0 .. len_kv"], []),
}


def texts(walk: Walk) -> tuple[list[str], list[str]]:
    """Ranges as `first .. last`: seen, hidden."""
    seen, hidden = (
        [f"{show_expr(item.first)} .. {show_expr(item.last)}" for item in items] for items in (walk.seen, walk.hidden)
    )
    return seen, hidden


@pytest.mark.parametrize("mask", KEYS)
def test_ranges_of_keys(mask: str) -> None:
    assert texts(analyse(read_spec(f"{HEAD}mask = {mask}\n")).keys) == KEYS[mask]


def test_ranges_of_documents_are_searches_in_the_sorted_ids() -> None:
    tensors = "input ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
    seen, hidden = texts(analyse(read_spec(f"{HEAD}{tensors}mask = document(ids_q, ids_kv)\n")).keys)
    assert seen == ["search_left(ids_kv[b], ids_q[b, q_first]) .. search_right(ids_kv[b], ids_q[b, q_last])"]
    assert hidden == ["0 .. search_left(ids_kv[b], ids_q[b, q_last])", "search_right(ids_kv[b], ids_q[b, q_first]) .. len_kv"]


def test_a_range_has_the_words_of_the_file_as_its_reason() -> None:
    walk = analyse(read_spec(f"{HEAD}const window = 9\nmask = causal and kv > qpos - window\n")).keys
    assert [item.reason for item in walk.seen] == ["`causal` and `kv > qpos - window`"]
    assert [item.reason for item in walk.hidden] == ["not `causal`", "not `kv > qpos - window`"]


@pytest.mark.parametrize("reach", [2**30, 2**31 - 1])
def test_a_reach_longer_than_any_sequence_leaves_no_large_number(reach: int) -> None:
    mask: Expr = both(compare(op("-", KV, Q), "<=", integer(reach)), Compare("<=", DISTANCE, integer(reach)))
    assert texts(walks(mask, Facts())[0]) == (["0 .. len_kv"], [])


def test_the_answer_does_not_depend_on_the_seed_of_hashes() -> None:
    code = (
        "from attnspec.language.load import read_spec\n"
        "from attnspec.lowering.analysis.analyse import analyse\n"
        f"print(analyse(read_spec({HEAD + 'mask = causal and (kv < 4 or abs(q - kv) < 9) or q // 3 == kv // 5'!r})))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
