"""The emitted backward module: readable, of the variant's own alone."""

from functools import cache

import pytest

from attnspec import stages
from tests.golden_text import check_golden
from tests.small_constants import path_of

LONGEST = 400  # lines


@cache
def backward_text(variant: str) -> str:
    analysed = stages.analyse(stages.read(path_of(variant)))
    return stages.emit(analysed, stages.place(stages.draw(analysed, "backward"), analysed)).module("backward").text


@pytest.mark.parametrize("variant", ["gemma2_local", "relative_bias", "gpt_oss"])
def test_emitted_backward_is_golden(variant: str) -> None:
    check_golden(f"sm100_backward_{variant}.txt", backward_text(variant))


@pytest.mark.parametrize("variant", ["dense", "gated_bias", "packed_varlen", "image_span"])
def test_emitted_backward_is_short(variant: str) -> None:
    assert backward_text(variant).count("\n") < LONGEST


def test_a_score_without_a_slope_of_its_own_says_so() -> None:
    assert "score=None," in backward_text("dense")
    assert ", None\n" in backward_text("relative_bias")


def test_learned_reads_name_their_class() -> None:
    assert "LearnedRead('u_bias', 'distance', partial_1, indices_1)," in backward_text("relative_bias")
    assert "SinkRead('u_sinks', sink_partial_1, sink_indices_1)," in backward_text("gpt_oss")
