"""Sorted tensors that say what is visible: found once for a group of heads, or by each head; and one that is found in another."""

from typing import Literal

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from attnspec import stages

HEAD = "attention sorts\nhead_dim 64\ngroup 2\n"
ALIKE = HEAD + (
    "input ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
    "mask = causal and ids_q[b, q] == ids_kv[b, kv]\n"
)
BY_HEAD = HEAD + (
    "input ids_q: i32[heads, len_q] sorted\ninput ids_kv: i32[heads, len_kv] sorted\n"
    "mask = causal and ids_q[h, q] == ids_kv[h, kv]\n"
)
NESTED = HEAD + (
    "input place: i32[len_kv] in 0..100 sorted\ninput ends: i32[101] sorted\nmask = ends[place[kv]] <= q\n"
)  # fmt: skip
Target = Literal["sm90", "sm100"]


def module(text: str, target: Target) -> str:
    analysed = stages.analyse(stages.read(text))
    schedule = stages.place(stages.draw(analysed, "backward", target), analysed, target)
    return stages.emit(analysed, schedule).module("backward").text


@pytest.mark.parametrize("target", ["sm90", "sm100"])
def test_ranges_that_name_no_head_are_found_once_for_a_group(target: Target) -> None:
    assert ["reads_once=True" in module(text, target) for text in (ALIKE, BY_HEAD)] == [True, False]


def test_a_search_for_what_another_finds_waits_for_it() -> None:
    analysed = stages.analyse(stages.read(NESTED))
    text = stages.emit(analysed, stages.place(stages.draw(analysed, "forward", "sm90"), analysed, "sm90")).module("forward").text
    assert "v1 = search(at.tensors.u_ends, (), at.q_last, 'right', 'search_right(ends, q_last)')" in text
    assert "search(at.tensors.u_place, (), v1, 'left', 'search_left(place, search_right(ends, q_last))', waits=True)" in text


@pytest.mark.parametrize("target", ["sm90", "sm100"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_no_element_reads_what_a_sorted_tensor_says(target: Target, direction: Literal["forward", "backward"]) -> None:
    """Two searches for each end of a tile, which its walk makes anyway; a row finds its places between them."""
    analysed = stages.analyse(stages.read(ALIKE))
    schedule = stages.place(stages.draw(analysed, direction, target), analysed, target)
    text = stages.emit(analysed, schedule).module(direction).text
    values = text[text.index("def row_values" if direction == "forward" else "def key_values") :]
    values = values[: values.index("\n\n\n")]
    assert values.count("search_within(") == 2
    assert values.count("search(") == 4
    assert "keys_where" not in text
    assert "Stage(" not in text


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm90", "sm100"])
@pytest.mark.parametrize("text", [ALIKE, BY_HEAD, NESTED], ids=["alike", "by head", "nested"])
def test_results_and_gradients_are_those_of_the_oracle(text: str, target: Target) -> None:
    attention = attnspec.build(text, target=target, on="emulator")
    rows = compare(attention, draw_inputs(attention.spec, Shape(1, 4, 2, 200, 330), 1))
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]
