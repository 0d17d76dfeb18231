"""The emitted backward module: readable, of the variant's own alone."""

from functools import cache

import pytest

from attnspec import stages
from tests.golden_text import check_golden
from tests.small_constants import path_of

LONGEST = 250  # lines
GOLDEN = (
    *("alibi", "causal", "cosine", "dense", "document_causal", "forgetting", "gated_bias", "gemma2_local", "gpt_oss"),
    *("mla", "packed_varlen", "relative_bias", "t5_bias"),
)


@cache
def backward_text(variant: str, deterministic: bool = False) -> str:
    analysed = stages.analyse(stages.read(path_of(variant)))
    graph = stages.draw(analysed, "backward", deterministic=deterministic)
    return stages.emit(analysed, stages.place(graph, analysed)).module("backward").text


@pytest.mark.parametrize("variant", GOLDEN)
def test_emitted_backward_is_golden(variant: str) -> None:
    check_golden(f"sm100_backward_{variant}.txt", backward_text(variant))


def test_emitted_deterministic_backward_is_golden() -> None:
    check_golden("sm100_backward_deterministic_relative_bias.txt", backward_text("relative_bias", True))


@pytest.mark.parametrize("variant", [*GOLDEN, "image_span", "t5_bias_causal"])
def test_emitted_backward_is_short(variant: str) -> None:
    assert backward_text(variant).count("\n") <= LONGEST


def test_a_score_without_a_slope_of_its_own_says_so() -> None:
    assert "score=None," in backward_text("dense")
    assert ", None\n" in backward_text("relative_bias")


def test_learned_reads_name_their_class() -> None:
    assert "LearnedRead('u_bias', 'distance', partial_1, indices_1)," in backward_text("relative_bias")
    assert "SinkRead('u_sinks', sink_partial_1, sink_indices_1)," in backward_text("gpt_oss")
