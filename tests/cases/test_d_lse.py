"""The LSE, and where keys lie: public bug reports as cases (D1, D2, D5 for places in memory instead of pages)."""

import math

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

from tests.cases.attend import exactly_f32, spec


def test_d1_the_lse_is_a_natural_logarithm(target):
    assert target.attend(spec(), 1, [1.0] * 8).lse == exactly_f32([math.log(8)])


def test_d2_the_lse_of_rows_that_see_different_counts_differs(target):
    assert target.attend(spec("mask = causal"), 4, [1.0] * 4).lse == exactly_f32([0, math.log(2), math.log(3), math.log(4)])


@pytest.mark.parametrize("shape", [Shape(1, 2, 1, 70, 200)])
def test_d_results_over_two_halves_of_the_keys_merge_by_their_lse(target, shape):
    attention = target.build("attention merged\nhead_dim 32\ndtype fp16\nmask = causal and (q + kv) % 3 != 0\n")
    inputs = draw_inputs(attention.spec, shape)
    whole, whole_lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True)
    parts = [
        attention(inputs.q, inputs.k[:, part], inputs.v[:, part], kv_offset=part.start, len_kv=200, return_lse=True)
        for part in (slice(0, 77), slice(77, 200))
    ]
    lse = torch.logaddexp(parts[0][1], parts[1][1])
    weights = [torch.exp(part_lse - lse).transpose(1, 2)[..., None] for _, part_lse in parts]
    merged = sum(out.float() * weight for (out, _), weight in zip(parts, weights, strict=True))
    # Emulated are keys in some places of a tile, and a part's tiles start elsewhere: whole and parts are each off by their own.
    of_each = 1 if target.name == "reference" else 2
    assert torch.allclose(lse, whole_lse, rtol=1e-6, atol=of_each * target.lse_error)
    # Each part and the whole are rounded to fp16 once.
    assert torch.allclose(torch.as_tensor(merged), whole.float(), rtol=2.0**-10, atol=2.0**-10)


def test_d5_bits_do_not_depend_on_where_in_memory_keys_lie(target):
    attention = target.build("attention placed\nhead_dim 32\nmask = causal\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 20, 150))
    first = attention(inputs.q, inputs.k, inputs.v)
    for slot in (0, 2):
        room = [torch.full((3, 150, 2, 32), float("nan"), dtype=torch.bfloat16) for _ in range(2)]
        k, v = (one[slot : slot + 1, :, slot // 2 : slot // 2 + 1] for one in room)
        k.copy_(inputs.k), v.copy_(inputs.v)
        assert torch.equal(attention(inputs.q, k, v), first)
