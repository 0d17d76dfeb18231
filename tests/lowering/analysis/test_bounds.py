"""Ranges of scores, and when softmax needs no running maximum."""

import math
from dataclasses import replace

import numpy as np
import pytest
from attnspec.lowering.analysis.bounds import ScoreRange, bounds
from attnspec.lowering.analysis.evaluate import Env, evaluate
from attnspec.lowering.analysis.facts import Facts
from hypothesis import given, settings
from hypothesis import strategies as st

from attnspec.language.expr import Compare, Expr, Name, Number, Read, Select
from attnspec.language.spec import Spec, Tensor
from tests.lowering.analysis.cases import analysed
from tests.lowering.analysis.masks import KV, Q
from tests.lowering.analysis.scores import SCORE, SCORES, call, real, real_op

DENSE = Spec("dense", 128, 128, None, "bf16", real(0.1), False, (), (), SCORE, None, None)
BIAS = Tensor("bias", "f32", (), True)
GATE = Tensor("gate", "f32", (), False, low=real(0.0), high=real(4.0))


def softcap(cap: float) -> Expr:
    return real_op("*", real(cap), call("tanh", real_op("/", SCORE, real(cap))))


def scored(score: Expr, **changes: object) -> Spec:
    return replace(DENSE, score=score, tensors=(BIAS, GATE), **changes)  # type: ignore[arg-type]


@settings(max_examples=250, deadline=None)
@given(SCORES, st.floats(-1e4, 1e4), st.floats(-4, 4))
def test_scores_lie_in_their_range(expr, score, t) -> None:
    facts = Facts({"t": Tensor("t", "f32", (), False, low=real(-4.0), high=real(4.0))})
    low, high = ScoreRange(facts).of(expr)
    value = float(evaluate(expr, Env({"score": score}, {"t": np.float64(t)})))
    assert low <= value <= high or math.isnan(value)


def test_softcap_50_needs_no_row_max_in_bf16() -> None:
    found = bounds(scored(softcap(50.0)))
    assert not found.needs_row_max
    assert found.low == pytest.approx(-50, rel=1e-5)
    assert found.high == pytest.approx(50, rel=1e-5)
    assert found.half_range_log2 == pytest.approx(72.1348, rel=1e-4)
    assert found.longest_row == 2**30
    assert "bf16" in found.reason
    assert str(2**30) in found.reason


def test_softcap_50_needs_it_in_fp16() -> None:
    found = bounds(scored(softcap(50.0), dtype="fp16"))
    assert found.needs_row_max
    assert "no normal fp16 number" in found.reason


def test_softcap_9_needs_none_in_fp16() -> None:
    assert not bounds(scored(softcap(9.0), dtype="fp16")).needs_row_max


def test_sums_that_may_overflow_f32_need_it() -> None:
    found = bounds(scored(softcap(64.0)))
    assert found.needs_row_max
    assert "f32" in found.reason


@pytest.mark.parametrize("cap", [10.0, 30.0, 50.0, 54.0])
def test_the_proof_holds_at_its_longest_row(cap: float) -> None:
    found = bounds(scored(softcap(cap)))
    assert not found.needs_row_max
    largest_sum = 2.0**found.half_range_log2 * found.longest_row * 2.0**24
    assert largest_sum < float(np.finfo(np.float32).max)
    assert 2.0**-found.half_range_log2 >= float(np.finfo(np.float32).tiny)


def test_a_plain_score_is_not_bounded() -> None:
    found = bounds(DENSE)
    assert found.needs_row_max
    assert (found.low, found.high) == (-math.inf, math.inf)


def test_a_learned_bias_makes_it_unbounded() -> None:
    assert bounds(scored(real_op("+", softcap(50.0), Read("bias", (), "float")))).needs_row_max


def test_an_input_of_declared_range_keeps_it_bounded() -> None:
    found = bounds(scored(real_op("+", softcap(30.0), Read("gate", (), "float"))))
    assert not found.needs_row_max
    assert found.high == pytest.approx(34, rel=1e-4)
    assert found.low == pytest.approx(-30, rel=1e-4)


def test_a_branch_of_minus_infinity_is_masked_not_unbounded() -> None:
    hidden = Select(Compare("<", Q, KV), Number(-math.inf, "float"), softcap(30.0), "float")
    found = bounds(scored(hidden))
    assert not found.needs_row_max
    assert found.low == pytest.approx(-30, rel=1e-4)


def test_a_sink_joins_at_the_end() -> None:
    found = bounds(scored(softcap(30.0), sink=Read("bias", (), "float")))
    assert not found.needs_row_max
    assert "sink" in found.reason


@pytest.mark.parametrize("name", ["softcap", "gemma2_local", "gemma2_global"])
def test_capped_variants_need_no_row_max(name: str) -> None:
    assert not analysed(name).bounds.needs_row_max


def test_the_name_of_the_score_is_unbounded() -> None:
    assert ScoreRange(Facts()).of(Name("score", "float")) == (-math.inf, math.inf)
