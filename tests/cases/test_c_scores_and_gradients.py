"""Score statements and their gradients: public bug reports as cases (C1 to C13; C2's hang is a GPU schedule's)."""

import math
from itertools import pairwise

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from attnspec.stages import draw, emit, emit_reference, place
from tests.cases.attend import attend, exactly_f32, near, spec

DISTANCE = ("learned bias: f32[len_q + len_kv - 1]", "score = score + bias[q - kv + len_kv - 1]")
BUCKETS = {
    "t5_bucket": {-130: 15, -20: 10, -8: 8, -1: 1, 0: 0, 1: 17, 8: 24, 20: 26, 130: 31},
    "t5_bucket_causal": {-130: 31, -20: 17, -16: 16, -1: 1, 0: 0, 5: 0},
}
EDGES = {11: 8, 12: 9, 16: 10, 23: 11, 32: 12, 46: 13, 64: 14, 91: 15}


@pytest.mark.parametrize(
    ("raw", "capped", "slope"),
    [(0, 0, 1), (5, 4.822691, 0.896630), (15, 11.423912, 0.419974), (30, 14.460414, 0.070651), (60, 14.989939, 0.00134095)],
)
def test_c1_softcap_is_c_tanh_of_s_over_c(target, raw, capped, slope):
    found = target.attend(spec("score = softcap(score, 15.0)"), 1, [1.0], [float(raw)], dout=0.0, dlse=1.0)
    assert found.lse == pytest.approx([capped], rel=target.tanh_error, abs=1e-6)
    if target.differentiates:
        assert found.dlogits == pytest.approx([slope], rel=target.gradient_error(2.0**-10))


def test_c2_softcap_gradients_have_the_chain_factor(target):
    text = spec("score = softcap(score, 2.0)")
    found = target.attend(text, 1, [0.0, 1.0], [0.0, 2.0])
    assert found.out == near([0.821008])
    assert found.lse == pytest.approx([1.720411], rel=max(1e-6, target.tanh_error))
    if not target.differentiates:
        return
    assert found.dlogits[1] == pytest.approx(0.061717, rel=target.gradient_error(2.0**-10))
    by_lse = target.attend(text, 1, [0.0, 1.0], [0.0, 2.0], dout=0.0, dlse=1.0)
    assert by_lse.dlogits == pytest.approx([0.178993, 0.344802], rel=target.gradient_error(2.0**-10))


def test_c3_one_packed_sequence_gives_the_bits_of_the_dense_call(target):
    text = "attention capped\nhead_dim 32\nscore = softcap(score, 2.0)\nmask = causal\n"
    dense, packed = target.build(text), target.build(text + "varlen\n")
    inputs = draw_inputs(dense.spec, Shape(1, 2, 1, 150, 150))
    leaves = [inputs.q, inputs.k, inputs.v]
    ends = {"cu_seqlens_q": [0, 150], "cu_seqlens_kv": [0, 150]}
    assert torch.equal(packed(*(leaf[0] for leaf in leaves), **ends), dense(*leaves)[0])
    if not target.differentiates:
        return
    leaves = [array.requires_grad_() for array in leaves]
    first = torch.autograd.grad(dense(*leaves), leaves, inputs.dout)
    second = torch.autograd.grad(packed(*(leaf[0] for leaf in leaves), **ends), leaves, inputs.dout[0])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_c4_a_key_that_no_query_sees_gets_no_gradient():
    found = attend(spec("mask = causal and kv != 2"), 4, [1.0, 2.0, 3.0, 4.0], dlse=1.0)
    assert (found.dv[2], found.dlogits[2]) == (0.0, 0.0)
    assert found.dv[0] > 0


def test_c6_a_learned_scalar_that_multiplies_the_score(target):
    text = spec("learned t: f32", "score = score * t")
    found = target.attend(text, 1, [0.0, 1.0], [0.0, math.log(2)], t=torch.tensor(1.0))
    assert found.out == near([2 / 3])
    if target.differentiates:
        assert found.learned["t"].item() == pytest.approx(0.154033, rel=target.gradient_error(1e-5))


def test_c6_a_learned_scalar_that_is_added_moves_the_lse_alone():
    text = spec("learned t: f32", "score = score + t")
    by_out = attend(text, 1, [0.0, 1.0], [0.0, math.log(2)], t=torch.tensor(0.0))
    by_lse = attend(text, 1, [0.0, 1.0], [0.0, math.log(2)], dout=0.0, dlse=1.0, t=torch.tensor(0.0))
    assert by_out.learned["t"].item() == pytest.approx(0, abs=2.0**-23)
    assert by_lse.learned["t"].item() == pytest.approx(1, abs=2.0**-22)


@pytest.mark.parametrize(
    ("mask", "expected", "out"),
    [("true", [1 / 3, 1 / 3, 0, -1 / 3, -1 / 3], [1, 1, 1]), ("causal", [0, 0, 7 / 12, -1 / 4, -1 / 3], [0, 0.5, 1])],
)
def test_c7_a_table_of_distances_gets_its_diagonals_sums(target, mask, expected, out):
    found = target.attend(spec(*DISTANCE, f"mask = {mask}"), 3, [0.0, 1.0, 2.0], bias=torch.zeros(5))
    assert found.out == near(out)
    if not target.differentiates:
        return
    assert found.learned["bias"].tolist() == exactly_f32(expected)
    assert found.learned["bias"].sum().item() == pytest.approx(0, abs=1e-6)


def test_c7_a_clipped_table_sums_what_its_ends_share():
    text = spec("learned bias: f32[3]", "score = score + bias[clamp(q - kv, -1, 1) + 1]")
    found = attend(text, 3, [0.0, 1.0, 2.0], bias=torch.zeros(3))
    assert found.learned["bias"].tolist() == exactly_f32([2 / 3, 0, -2 / 3])


def test_c7_with_the_lses_gradient_a_table_sums_to_the_number_of_rows():
    found = attend(spec(*DISTANCE), 3, [0.0, 1.0, 2.0], dlse=1.0, bias=torch.randn(5))
    assert found.learned["bias"].sum().item() == pytest.approx(3, abs=1e-5)


def test_c7_two_runs_give_a_table_the_same_bits():
    attention = attnspec.build("attention table\nhead_dim 16\n" + "\n".join(DISTANCE) + "\n")
    inputs = draw_inputs(attention.spec, Shape(2, 2, 1, 150, 150))
    bias = inputs.tensors["bias"].requires_grad_()

    def gradient():
        out = attention(inputs.q, inputs.k, inputs.v, bias=bias, deterministic=True)
        return torch.autograd.grad(out, bias, inputs.dout)[0]

    assert torch.equal(gradient(), gradient())


def test_c9_what_a_spec_says_is_in_the_manifest_and_in_the_numbers(target):
    capped = target.build(spec("const cap = 2.0", "score = softcap(score, cap)", "mask = window(3, 0)"))
    assert emit_reference(capped.analysed).manifest["constants"] == {"cap": 2.0}
    assert emit_reference(capped.analysed).manifest["has_mask"] is True
    assert emit(capped.analysed, place(draw(capped.analysed), capped.analysed)).manifest["constants"] == {"cap": 2.0}
    assert target.attend(spec("score = softcap(score, 2.0)"), 1, [0.0, 1.0], [0.0, 2.0]).out == near([0.821008])
    assert target.attend(spec(), 1, [0.0, 1.0], [0.0, 2.0]).out == near([0.880797])


@pytest.mark.parametrize(
    ("keys", "sink", "out", "lse"), [(4, 0, 0.8, 1.609438), (4, 2, 0.351214, 2.432653), (1024, 3, 0.980763, 6.950897)]
)
def test_c11_a_sink_joins_the_denominator_once(target, keys, sink, out, lse):
    text = spec("input s: f32[heads]", "sink = s[h]")
    found = target.attend(text, 1, [1.0] * keys, s=torch.tensor([float(sink)]))
    assert found.out == near([out])
    assert found.lse == pytest.approx([lse], rel=1e-6)


def test_c11_sinks_are_of_query_heads_not_of_key_heads(target):
    attention = target.build(spec("input s: f32[heads]", "sink = s[h]"))
    q, k = torch.zeros(1, 1, 2, 16, dtype=torch.float16), torch.zeros(1, 4, 1, 16, dtype=torch.float16)
    out = attention(q, k, torch.ones_like(k), s=torch.tensor([0.0, 2.0]))
    assert out[0, 0, :, 0].tolist() == near([0.8, 0.351214])


@pytest.mark.parametrize("function", BUCKETS)
def test_c13_t5_buckets_by_relative_position(target, function):
    # One key a row, so the LSE is the table's element, which is its own index.
    text = spec("input table: f32[32]", f"score = table[{function}(q - 130)]", head_dim=8)
    lse = target.attend(text, 261, [1.0], table=torch.arange(32.0)).lse
    assert {relative: lse[relative + 130] for relative in BUCKETS[function]} == exactly_f32(BUCKETS[function])
    assert all(later >= earlier for earlier, later in pairwise(reversed(lse[:131])))


def test_c13_t5_buckets_step_at_the_distances_where_the_logarithm_does(target):
    text = spec("input table: f32[32]", "score = table[t5_bucket(-q)]", head_dim=8)
    lse = target.attend(text, 130, [1.0], table=torch.arange(32.0)).lse
    assert {distance: lse[distance] for distance in EDGES} == exactly_f32(EDGES)


def test_c_the_order_of_score_statements_is_the_order_of_their_effect(target):
    first = target.build(spec("score = score * 2.0", "score = score + 1.0"))
    second = target.build(spec("score = score + 1.0", "score = score * 2.0"))
    q = torch.zeros(1, 1, 1, 16, dtype=torch.float16)
    lse = [attention(q, q, q, return_lse=True)[1].item() for attention in (first, second)]
    assert lse == [1.0, 2.0]


def test_c_a_score_of_minus_infinity_is_a_masked_one(target):
    text = "attention hidden\nhead_dim 32\nscore = score if {} else -inf\n"
    masked = target.build("attention hidden\nhead_dim 32\nmask = kv <= q - 3\n")
    scored = target.build(text.format("kv <= q - 3"))
    inputs = draw_inputs(masked.spec, Shape(1, 1, 1, 140, 140))
    if target.name == "reference":  # a GPU's kernel folds the scale of a plain score into the exponential: other roundings
        assert torch.equal(scored(inputs.q, inputs.k, inputs.v), masked(inputs.q, inputs.k, inputs.v))
    assert target.agrees(scored, inputs)
    assert target.counts("score = score if kv < 2 else -inf", queries=1, keys=5) == [2]
