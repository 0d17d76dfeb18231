"""Pairs of CTAs in the backward, where the model finds that they save enough: of a step, and of the steps there are."""

import pytest
from attnspec.backends.sm90.limits import LIMITS as HOPPER
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule import cost
from attnspec.lowering.schedule.choose_backward_ctas import (
    MARGIN,
    choose_backward_ctas,
    explain_backward_ctas,
    short_calls,
    weigh,
)
from attnspec.lowering.schedule.refuse_pair import backward_reason

from attnspec import stages, variants

DOCUMENTS = "input ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
LENGTH = 4096  # of queries and keys, at which steps are counted
PAIRED = {
    *("block_causal", "causal", "causal_top_left", "chunked", "dense", "forgetting", "gqa", "image_span", "length_scaled"),
    *("log_decay", "mqa", "sliding_window_causal", "tree_mask"),
}


def of(head_dim: object = 128, more: str = "") -> Analysed:
    return stages.analyse(stages.read(f"attention small\nhead_dim {head_dim}\n{more}"))


def standard(name: str) -> Analysed:
    return stages.analyse(stages.read(variants.path(name)))


def test_pairs_are_taken_for_the_variants_that_they_save_much_for() -> None:
    assert {name for name in variants.names() if choose_backward_ctas(standard(name), LIMITS) == 2} == PAIRED


@pytest.mark.parametrize(
    ("head_dim", "ctas"), [(64, 1), (80, 1), (88, 2), (96, 2), (128, 2), ("128, 64", 2), ("64, 128", 1), (136, 1), (256, 1)]
)
def test_pairs_are_taken_where_dq_holds_up_one_cta(head_dim: object, ctas: int) -> None:
    assert choose_backward_ctas(of(head_dim), LIMITS) == ctas


def test_a_pair_is_no_loss_where_hand_overs_take_three_quarters_longer_than_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what the margin is for."""
    chosen = [standard(name) for name in sorted(PAIRED)] + [of(dim) for dim in (88, 96, 104, 112, 120)]
    assert all(weigh(one, LIMITS).best == 2 for one in chosen)
    monkeypatch.setattr(cost, "REMOTE", 1.75 * cost.REMOTE)
    assert all(weigh(one, LIMITS).gain >= 0 for one in chosen)


def test_who_asks_for_either_form_has_it() -> None:
    assert [choose_backward_ctas(of(64), LIMITS, wanted) for wanted in (1, 2)] == [1, 2]
    assert [choose_backward_ctas(of(128), LIMITS, wanted) for wanted in (1, 2)] == [1, 2]


def test_one_cta_runs_what_a_pair_cannot() -> None:
    assert choose_backward_ctas(of(192), LIMITS, wanted=2) == 1
    assert choose_backward_ctas(of(128), HOPPER, wanted=2) == 1
    assert choose_backward_ctas(standard("relative_bias"), LIMITS, wanted=2) == 1
    assert short_calls(of(192), LIMITS) == 0


@pytest.mark.parametrize(
    "more",
    [
        "learned t: f32[heads]\nscore = score * t[h]\n",
        "learned t: f32[batch, len_kv]\nscore = score + t[b, kv] * tanh(score)\n",
        "input t: f32[len_q]\nscore = score * t[q]\n",
    ],
)
@pytest.mark.parametrize(("head_dim", "ctas"), [(96, 2), (104, 1), (112, 1), (128, 1), ("128, 64", 2), ("64, 128", 2)])
def test_one_cta_needs_scores_again_with_dp_where_dq_of_a_pair_would_wait_in_their_columns(
    more: str, head_dim: object, ctas: int
) -> None:
    assert choose_backward_ctas(of(head_dim, more), LIMITS, wanted=2) == ctas


def by_hand(window: int, keys: int) -> int:
    """Query tiles of 128 that meet some key tile of so many keys, summed over the key tiles: a causal window."""
    met = 0
    for first in range(0, LENGTH, keys):
        last = min(first + keys + window - 1, LENGTH) - 1  # query that sees the last key
        met += last // 128 - first // 128 + 1
    return met


@pytest.mark.parametrize("window", [128, 1024, 2048, LENGTH])
def test_steps_are_those_of_tiles_of_256_keys(window: int) -> None:
    found = weigh(of(128, f"mask = kv <= q and kv > q - {window}\n"), LIMITS)
    assert found.length == LENGTH
    assert found.steps == (by_hand(window, 128), 2 * by_hand(window, 256))


@pytest.mark.parametrize(("window", "ctas"), [(128, 1), (1024, 1), (4096, 2)])
def test_a_narrow_window_wastes_what_a_pair_saves(window: int, ctas: int) -> None:
    assert choose_backward_ctas(of(128, f"mask = kv <= q and kv > q - {window}\n"), LIMITS) == ctas


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (f"{DOCUMENTS}mask = document(ids_q, ids_kv)\n", "`ids_kv`, `ids_q`, `b`"),
        ("input seen: i32[batch]\nmask = kv <= q or kv < seen[b]\n", "`seen`, `b`"),
        ("mask = kv > q - 100 * (h + 1)\n", "`h`"),
        ("varlen\n", "the lengths of packed sequences"),
    ],
)
def test_what_only_a_call_knows_is_left_to_one_cta(more: str, what: str) -> None:
    assert choose_backward_ctas(of(128, more), LIMITS) == 1
    assert f"hangs on {what}, and" in explain_backward_ctas(of(128, more), LIMITS, 1)


def test_a_mask_of_which_nothing_is_left_at_that_length_is_one_ctas() -> None:
    assert choose_backward_ctas(of(128, "mask = kv > q + 5000\n"), LIMITS) == 1


def total(analysed: Analysed, length: int) -> tuple[float, float]:
    """Cycles of a dense head by both forms."""
    found = weigh(analysed, LIMITS)
    steps = length // 128
    return steps * steps * found.one.cycles, steps * 2 * -(-length // 256) * found.two.cycles


def test_short_calls_are_those_for_which_a_pair_is_no_faster() -> None:
    """Five tiles of 128 keys are three of 256: at 3192 cycles for 3656 a pair begins to win at seven."""
    short = short_calls(of(128), LIMITS)
    assert short == 640
    one, two = total(of(128), short)
    assert one <= two
    for length in range(short + 128, LENGTH, 128):
        one, two = total(of(128), length)
        assert two < one
    assert short_calls(of(96), LIMITS) == 896
    assert short_calls(of(64), LIMITS) == 0


def test_explanation_has_both_figures_and_the_margin() -> None:
    told = explain_backward_ctas(of(128), LIMITS, 2)
    assert "CTAs a work tile: 2, as the model finds, but 1 for calls of at most 640 keys" in told
    assert "1: a step takes 3656 cycles" in told
    assert "2: a step takes 3192 cycles" in told
    assert "saves 12.7 % of the cycles" in told
    assert f"{100 * MARGIN:.0f} %" in told
    assert "as asked; the model finds 2" in explain_backward_ctas(of(128), LIMITS, 1)
    assert "as asked; the model finds 1" in explain_backward_ctas(of(64), LIMITS, 2)


def test_explanation_says_what_a_pair_cannot_share() -> None:
    assert "takes head dimensions up to 128" in explain_backward_ctas(of(192), LIMITS, 1)


def test_every_variant_that_two_can_share_is_explained() -> None:
    for name in variants.names():
        found = standard(name)
        told = explain_backward_ctas(found, LIMITS, choose_backward_ctas(found, LIMITS))
        assert (len(told.splitlines()) == 4) == (backward_reason(found, LIMITS) is None)
