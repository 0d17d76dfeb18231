"""What is left of a bounded score when the factors around and inside it have gone to the scale and to the exponential."""

import math

import numpy as np
import pytest
from attnspec.lowering.analysis.analyse import analyse
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.evaluate import Env, evaluate
from attnspec.lowering.analysis.peel import fuses_score, peel

from attnspec.language.load import read_spec
from attnspec.language.show_expr import Printer


def analysed(score: str, dtype: str = "bf16") -> Analysed:
    return analyse(read_spec(f"attention peeled\nhead_dim 64\ndtype {dtype}\n{score}\n", {}))


@pytest.mark.parametrize(
    ("score", "outer", "inner", "left"),
    [
        ("score = softcap(score, 30.0)", 30.0, 1 / 30, "tanh(score)"),
        ("score = softcap(score / 4.0, 20.0)", 20.0, None, None),
        ("score = 10.0 * sigmoid(score)", 10.0, 1.0, "sigmoid(score)"),
        ("score = tanh(0.5 * score) / 0.25", 4.0, 0.5, "tanh(score)"),
        ("score = softcap(score, 30.0) + tanh(score)", 1.0, 1.0, None),
        ("score = -5.0 * tanh(score * 0.5)", 1.0, 0.5, "-5.0 * tanh(score)"),
    ],
)
def test_constant_factors_leave_a_score_and_the_rest_means_the_same(
    score: str, outer: float, inner: float | None, left: str | None
) -> None:
    found = analysed(score)
    peeled = peel(found)
    assert peeled.outer == pytest.approx(outer)
    assert inner is None or peeled.inner == pytest.approx(inner)
    assert left is None or Printer().show(peeled.score) == left
    x = np.linspace(-90, 90, 61)
    whole = evaluate(found.spec.score, Env({"score": x}, {}))
    parts = peeled.outer * evaluate(peeled.score, Env({"score": x * peeled.inner}, {}))
    assert np.allclose(whole, parts, rtol=1e-12, atol=1e-12)


def test_a_score_that_needs_a_maximum_is_left_as_it_is() -> None:
    found = analysed("score = softcap(score, 30.0)", dtype="fp16")
    assert peel(found).score == found.spec.score
    assert not fuses_score(found)


def test_a_score_is_part_of_the_exponentials_where_no_maximum_and_no_load_comes_between() -> None:
    assert fuses_score(analysed("score = softcap(score, 30.0)"))
    assert not fuses_score(analysed(""))
    assert not fuses_score(analysed("input bias: f32[len_kv]\nscore = softcap(score + bias[kv], 30.0)"))


def test_a_midpoint_is_in_the_units_of_what_is_left() -> None:
    """10 sigmoid(x) lies between 0 and 10: the middle is 0.5 in units of 10."""
    found = analysed("score = 10.0 * sigmoid(score)")
    assert (found.bounds.low + found.bounds.high) / 2 / peel(found).outer == pytest.approx(0.5)
    assert math.isclose(peel(found).outer, 10.0)
