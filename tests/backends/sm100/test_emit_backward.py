"""The emitted backward module: readable, of the variant's own alone."""

from functools import cache
from typing import Literal

import pytest

from attnspec import stages
from tests.golden_text import check_golden
from tests.small_constants import path_of

LONGEST = 250  # lines
MORE_OF_A_PAIR = 20  # of what two CTAs load twice, and wait for besides
GOLDEN = (
    *("alibi", "causal", "cosine", "dense", "document_causal", "forgetting", "gated_bias", "gemma2_local", "gpt_oss"),
    *("mla", "packed_varlen", "relative_bias", "t5_bias"),
)


PAIRS = {"causal", "dense", "forgetting"}  # what the cost model gives to two CTAs


@cache
def backward_text(variant: str, deterministic: bool = False, ctas: Literal[1, 2] | None = None) -> str:
    analysed = stages.analyse(stages.read(path_of(variant)))
    graph = stages.draw(analysed, "backward", ctas=ctas, deterministic=deterministic)
    return stages.emit(analysed, stages.place(graph, analysed)).module("backward").text


@pytest.mark.parametrize("variant", GOLDEN)
def test_emitted_backward_is_golden(variant: str) -> None:
    check_golden(f"sm100_backward_{variant}.txt", backward_text(variant))


@pytest.mark.parametrize("variant", sorted(PAIRS))
def test_emitted_backward_of_one_cta_is_golden(variant: str) -> None:
    check_golden(f"sm100_backward_one_cta_{variant}.txt", backward_text(variant, ctas=1))


@pytest.mark.parametrize("variant", GOLDEN)
def test_emitted_backward_has_pairs_where_the_model_finds_them(variant: str) -> None:
    assert ("cluster=[pair.CTAS, 1, 1]" in backward_text(variant)) == (variant in PAIRS)


def test_emitted_backward_of_a_pair_that_is_asked_for_is_golden() -> None:
    check_golden("sm100_backward_pair_gemma2_local.txt", backward_text("gemma2_local", ctas=2))


def test_emitted_deterministic_backward_is_golden() -> None:
    check_golden("sm100_backward_deterministic_relative_bias.txt", backward_text("relative_bias", True))
    check_golden("sm100_backward_deterministic_causal.txt", backward_text("causal", True))


@pytest.mark.parametrize("variant", [*GOLDEN, "image_span", "t5_bias_causal"])
def test_emitted_backward_is_short(variant: str) -> None:
    assert backward_text(variant, ctas=1).count("\n") <= LONGEST
    assert backward_text(variant).count("\n") <= LONGEST + MORE_OF_A_PAIR


def test_a_score_without_a_slope_of_its_own_says_so() -> None:
    assert "score=None," in backward_text("dense")
    assert ", None\n" in backward_text("relative_bias")


def test_learned_reads_name_their_class() -> None:
    assert "LearnedRead('u_bias', 'distance', partial_1, indices_1)," in backward_text("relative_bias")
    assert "SinkRead('u_sinks', sink_partial_1, sink_indices_1)," in backward_text("gpt_oss")
