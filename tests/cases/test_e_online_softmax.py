"""Numerics of the online softmax: public bug reports as cases (E1, E6, E10; E3, E4, E7 and E9 have a file of their own).

The running maximum of a GPU's kernel stays until a row's score exceeds it by 8 in log2 units.
"""

import math

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

from tests.cases.attend import exactly_f32, near, spec

LN2 = math.log(2)
TILE = 128  # keys; two of each tile are seen


@pytest.mark.parametrize("step", [6.9, 7.0, 7.999, 8.0, 8.001, 9.0])
def test_e1_a_later_tile_with_higher_scores_is_weighed_right_at_the_threshold_of_rescaling(target, step):
    logits = [0.0] * TILE + [step * LN2] * TILE
    found = target.attend(spec(f"mask = kv % {TILE} < 2"), 1, [0.0] * TILE + [1.0] * TILE, logits)
    weight = 2.0**step
    assert found.out == near([weight / (1 + weight)])
    assert found.lse == exactly_f32([math.log(2 + 2 * weight)])


def test_e1_scores_that_rise_step_by_step_over_many_tiles(target):
    steps = [0.0, 7.0, 9.0, 17.5, 17.0, 30.0]
    logits = [step * LN2 for step in steps for _ in range(TILE)]
    values = [float(index) for index, _ in enumerate(steps) for _ in range(TILE)]
    found = target.attend(spec(f"mask = kv % {TILE} == 5"), 1, values, logits)
    weights = [2.0**step for step in steps]
    assert found.out == near([sum(weight * index for index, weight in enumerate(weights)) / sum(weights)])
    assert found.lse == exactly_f32([math.log(sum(weights))])


def test_e6_a_rows_bits_do_not_depend_on_batch_or_on_other_rows(target):
    attention = target.build("attention causal\nhead_dim 32\nmask = causal\n")
    inputs = draw_inputs(attention.spec, Shape(7, 2, 1, 150, 150))
    whole = attention(inputs.q, inputs.k, inputs.v)
    alone = attention(inputs.q[4:5], inputs.k[4:5], inputs.v[4:5])
    step = attention(inputs.q[4:5, 140:141], inputs.k[4:5], inputs.v[4:5], q_offset=140, len_q=150)
    assert torch.equal(alone[0], whole[4])
    assert torch.equal(step[0, 0], whole[4, 140])


def test_e6_a_masked_tile_and_a_full_one_give_a_row_the_same_bits(target):
    # The first mask is not understood, so that every tile runs its code; under the second the first tile has none.
    masked = target.build("attention masked\nhead_dim 32\nmask = (q - kv) * (q - kv) >= 0 and kv < 200\n")
    plain = target.build("attention plain\nhead_dim 32\nmask = kv < 200\n")
    inputs = draw_inputs(masked.spec, Shape(1, 1, 1, 130, 300))
    assert torch.equal(masked(inputs.q, inputs.k, inputs.v), plain(inputs.q, inputs.k, inputs.v))


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_e10_probabilities_of_a_row_sum_to_one(target, dtype):
    attention = target.build(f"attention ones\nhead_dim 32\ndtype {dtype}\nmask = causal\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 300))
    out = attention(inputs.q * 4, inputs.k, torch.ones_like(inputs.v)).double()
    # Each probability is rounded once, each sum of 300 too; both far below a step of the output's type.
    epsilon = 2.0**-8 if dtype == "bf16" else 2.0**-11
    assert (out - 1).abs().max() <= epsilon


def test_e10_one_hot_values_give_the_probabilities(target):
    attention = target.build("attention one_hot\nhead_dim 64\ndtype fp16\nmask = causal\n")
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 64, 64))
    v = torch.eye(64, dtype=torch.float16)[None, :, None, :].contiguous()
    out = attention(inputs.q, inputs.k, v)[0, :, 0].double()
    scores = inputs.q[0, :, 0].double() @ inputs.k[0, :, 0].double().T / 8
    exact = scores.masked_fill(torch.ones(64, 64).triu(1).bool(), -math.inf).softmax(-1)
    assert torch.equal(out == 0, exact == 0)
    assert (out - exact).abs().max() <= 2.0**-11
    assert (out.sum(-1) - 1).abs().max() <= 2.0**-11 * math.sqrt(64)
