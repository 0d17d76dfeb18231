"""The forward graph follows the variant."""

import json

import networkx as nx
import pytest
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.show import dataflow_as_dict, show_dataflow

from tests.golden_text import check_golden
from tests.lowering.by_hand import DOUBLED, HIDDEN, analysed


def test_graph_is_shown_as_golden() -> None:
    check_golden("dataflow_forward_128.txt", show_dataflow(draw(analysed(), "forward")))


def test_graph_with_score_and_mask_is_shown_as_golden() -> None:
    variant = analysed(192, 128, score=DOUBLED, mask=HIDDEN)
    check_golden("dataflow_forward_score_mask_192_128.txt", show_dataflow(draw(variant, "forward")))


def test_score_is_an_operation_only_where_the_file_has_one() -> None:
    kinds = {operation.kind for operation in draw(analysed(), "forward").operations}
    assert "score" not in kinds
    assert "score" in {operation.kind for operation in draw(analysed(score=DOUBLED), "forward").operations}


def test_mask_says_what_it_hides() -> None:
    notes = [draw(variant, "forward").operation("mask[0]").note for variant in (analysed(), analysed(mask=HIDDEN))]
    assert notes == ["keys past the length", "mask of the file, and keys past the length"]


def test_operations_of_one_step_do_not_wait_for_each_other_in_a_circle() -> None:
    graph = draw(analysed(), "forward")
    step = nx.DiGraph((value.producer, value.consumer) for value in graph.values if value.distance == 0)
    assert nx.is_directed_acyclic_graph(step)


def test_running_maximum_and_sum_and_output_are_carried_from_step_to_step() -> None:
    carried = {(value.producer, value.consumer) for value in draw(analysed(), "forward").values if value.distance == 1}
    ends = [("row_max", "row_max"), ("row_sum", "row_sum"), ("mma_pv_tail", "rescale")]
    assert carried == {(f"{one}[{i}]", f"{other}[{i}]") for one, other in ends for i in (0, 1)}


def test_queries_open_a_tile_and_the_finish_closes_it() -> None:
    graph = draw(analysed(), "forward")
    names = ("load_q[0]", "finish[0]", "share_row[1]", "load_k")
    assert [graph.opens_tile(name) for name in names] == [True, False, False, False]


@pytest.mark.parametrize(("dims", "key_bytes", "value_bytes"), [((64, 64), 16384, 16384), ((8, 72), 16384, 32768)])
def test_shared_tiles_are_padded_to_whole_swizzled_rows(dims: tuple[int, int], key_bytes: int, value_bytes: int) -> None:
    graph = draw(analysed(*dims), "forward")
    parts = {value.name: value.part for value in graph.values}
    assert (parts["k"], parts["v"]) == ((0, key_bytes), (0, value_bytes))
    assert graph.buffer("kv").size == max(key_bytes, value_bytes)


def test_graph_is_plain_json() -> None:
    assert json.loads(json.dumps(dataflow_as_dict(draw(analysed(), "forward"))))["tile_q"] == 128
