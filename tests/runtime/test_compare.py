"""The comparison notices what is wrong, however small; otherwise its passing would say nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attnspec.backends.emitted import Emitted
from attnspec.emulator.numerics.measured import MEASURED
from attnspec.runtime import oracle_expression
from attnspec.runtime.arguments import DTYPES
from attnspec.runtime.compare import as_float64, compare, judge, problem, tolerance_of
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.kernel import Kernel
from attnspec.runtime.oracle import solve
from attnspec.runtime.reference_program import ReferenceProgram
from attnspec.runtime.tolerance import tolerance

import attnspec
from attnspec import stages
from tests.random_variants import random_variant
from tests.small_constants import SMALL, path_of

TEXT = """attention judged
head_dim 32
learned table: f32[5]
learned sinks: f32[heads]
score = softcap(score, 3.0) + table[clamp(q - kv, 0, 4)]
mask = causal
sink = sinks[h]
"""
FAULTS = [
    ("forward", "at.kv <= u_qpos", "at.kv < u_qpos", {"out", "lse"}),
    ("forward", "3.0 * tanh", "3.02 * tanh", {"out", "lse"}),
    ("forward", "torch.exp(sink - shift)", "torch.exp(sink)", {"out", "lse"}),
    ("forward", "row_sum * rescale", "row_sum", {"out", "lse"}),
    ("backward", "add_keys(dv, at, weigh(probability", "add_keys(dv, at, weigh(1.01 * probability", {"dv"}),
    ("backward", "dscore * slope,", "dscore,", {"dq", "dk"}),
    ("backward", "dsink = -delta", "dsink = -1.05 * delta", {"dsinks"}),
    ("backward", "minimum(maximum(at.q - at.kv, 0), 4)", "minimum(maximum(at.q - at.kv, 0), 3)", {"dtable"}),
]


def spoil(monkeypatch, name, old, new):
    """Make every kernel from now on with one change in its text."""
    emit = stages.emit_reference

    def emit_spoiled(analysed) -> Emitted:
        emitted = emit(analysed)
        assert old in emitted.module(name).text
        modules = [replace(m, text=m.text.replace(old, new)) if m.name == name else m for m in emitted.modules]
        return replace(emitted, modules=tuple(modules))

    def kernel(attention, target):
        learned = tuple(tensor.is_learned for tensor in attention.spec.tensors)
        return Kernel(ReferenceProgram(emit_spoiled(attention.analysed), learned))

    monkeypatch.setattr(stages, "kernel", kernel)


def wrong_rows(attention, seed=0):
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 150, 260), seed)
    return {row.name for row in compare(attention, inputs) if not row.is_right}


def test_a_right_kernel_passes():
    assert wrong_rows(attnspec.build(TEXT)) == set()


@pytest.mark.parametrize(("name", "old", "new", "expected"), FAULTS)
def test_a_small_fault_is_noticed(monkeypatch, name, old, new, expected):
    spoil(monkeypatch, name, old, new)
    assert wrong_rows(attnspec.build(TEXT)) >= expected


@pytest.mark.parametrize("variant", ["alibi_symmetric", "relative_bias", "t5_bias", "gpt_oss", "head_temperature"])
def test_a_learned_gradient_of_a_gpu_off_by_a_part_of_itself_is_noticed(variant):
    attention = attnspec.build(stages.read(path_of(variant), SMALL.get(variant, {})), on="emulator")
    wrong = wrong_learned(attention, torch.float32)
    assert wrong(1.0) == set()
    assert wrong(1.05) == {f"d{name}" for name in attention.learned}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_learned_gradient_of_16_bits_may_be_rounded_to_them(dtype):
    attention = attnspec.build(TEXT.replace("table: f32", f"table: {dtype}"), on="emulator")
    wrong = wrong_learned(attention, DTYPES[dtype])
    assert wrong(1.0) == set()
    assert "dtable" in wrong(1.05)


def wrong_learned(attention, dtype):
    """Results as a kernel without an error of its own would give them, gradients of learned tensors times a factor, to the names
    of those that are wrong. The sums of these cancel to far below what is rounded in them."""
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, Shape(1, 2, 1, 150, 260)), 0)
    results = without_own_error(attention, inputs)

    def wrong(factor):
        spoiled = {name: (results[name] * factor).to(dtype) for name in attention.learned}
        rows = judge(attention, inputs, [results | spoiled], False)
        return {row.name for row in rows if not row.is_right}

    return wrong


def without_own_error(attention, inputs):
    """out and lse as they are stored, and the gradients of learned tensors that follow from these, in float64."""
    upstream = as_float64(inputs.dout), as_float64(inputs.dlse)
    forward = solve(problem(attention, inputs)).exact
    out, lse = torch.tensor(forward.out).to(inputs.q.dtype), torch.tensor(forward.lse).float()
    found = solve(problem(attention, inputs), *upstream, (as_float64(out), as_float64(lse))).exact.gradients
    return {"out": out, "lse": lse} | {name: torch.tensor(found[name]) for name in attention.learned}


@pytest.mark.parametrize(
    ("seed", "shape"), [(80, Shape(1, 2, 1, 300, 417)), (86, Shape(1, 2, 1, 300, 417)), (98, Shape(1, 2, 2, 4, 2))]
)
def test_what_comes_of_the_tanh_of_an_h200_is_right(monkeypatch, seed, shape):
    attention = attnspec.build(random_variant(seed), target="sm90", on="emulator")
    inputs = draw_inputs(attention.spec, shape, 1)
    with monkeypatch.context() as patch:
        patch.setitem(oracle_expression.VALUES, "tanh", tanh_of_h200)
        patch.setitem(oracle_expression.VALUES, "sigmoid", lambda x: 0.5 + 0.5 * tanh_of_h200(x / 2))
        results = without_own_error(attention, inputs)
    assert [row for row in judge(attention, inputs, [results], False) if not row.is_right] == []


@pytest.mark.parametrize(("target", "error"), [("sm100", 8.8e-5), ("sm90", 0.0)])
def test_an_lse_may_be_off_by_the_polynomial_where_the_kernel_has_one(target, error):
    """On sm100 a share of dense exponentials is a polynomial's, on sm90 none."""
    attention = attnspec.build(path_of("dense"), target=target, on="emulator")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 40, 70), 0)
    answer = solve(problem(attention, inputs))
    lse, out = (
        tolerance_of(attention, inputs, answer, name, dtype) for name, dtype in (("lse", torch.float32), ("out", torch.bfloat16))
    )
    assert lse.floor == pytest.approx(error, abs=1e-30)
    assert out.factor - lse.factor == pytest.approx(2.0**-8 + 2 * error)


@pytest.mark.slow
def test_a_random_variant_whose_scores_want_a_share_on_hopper_is_right():
    attention = attnspec.build(random_variant(187), target="sm90", on="emulator")
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, Shape(1, 2, 1, 70, 150)), 1)
    assert [row for row in compare(attention, inputs, forward_only=True) if not row.is_right] == []


def tanh_of_h200(x):
    return MEASURED.tanh(np.asarray(x, np.float32)).astype(np.float64)


def test_the_tolerance_says_what_it_is_made_of():
    found = tolerance("bf16", 128, 4096, 20.0, roundings=1, stored="bf16")
    assert found.reason.startswith("stored in bf16 (3.9e-03) + 1 x bf16 inside the sum (3.9e-03) + f32 over d=128, n=4096")


def test_the_tolerance_grows_with_the_length_and_the_scores():
    def factor(length, score):
        return tolerance("bf16", 64, length, score, roundings=0, stored=None).factor

    assert factor(100, 5.0) < factor(100000, 5.0) < factor(100000, 50.0)


def test_drawn_inputs_are_the_same_for_the_same_seed_and_fit_their_declarations():
    text = (
        "attention drawn\nhead_dim 8\ngroup 4\ninput ids: i32[batch, len_kv] in 2..len_kv + 1 sorted\ninput w: f32 in 0.5..0.75\n"
        "input see: bool[len_q]\nmask = ids[b, kv] > 3 and w < 0.7 and see[q]\n"
    )
    spec = attnspec.build(text).spec
    shape = fit_shape(spec, Shape(2, 4, 2, 5, 9))
    first, second = draw_inputs(spec, shape, seed=3), draw_inputs(spec, shape, seed=3)
    assert (shape.heads, shape.kv_heads) == (4, 1)
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)
    ids = first.tensors["ids"]
    assert ids.min() >= 2
    assert ids.max() <= 10
    assert (ids.diff() >= 0).all()
    assert 0.5 <= first.tensors["w"] <= 0.75
    assert not torch.equal(draw_inputs(spec, shape, seed=4).q, first.q)
