"""Races, hangs and schedules: public bug reports as cases (H6, H8, and H1 and H10 in part).

A missing wait or fence (H3, H7) is what the emulator's hazard checks are for, register pools (H5) what `verify` refuses; every
call here runs with all checks. That all roles take the same trip count (H1) shows in that no call hangs.
"""

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

from tests.cases.attend import spec

LISTED = """attention listed
head_dim 32
input count: i32[len_q] in 0..len_kv
input sinks: f32[heads]
mask = kv < count[clamp(q, 0, len_q - 1)]
sink = sinks[h]
"""


def test_h6_rows_whose_list_is_empty_give_zero_and_the_sink(target):
    attention = target.build(LISTED)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 140, 200))
    count = torch.where(torch.arange(140) % 3 == 0, 0, torch.arange(140)).to(torch.int32)
    sinks = torch.tensor([1.5, -2.0])
    out, lse = attention(inputs.q, inputs.k, inputs.v, count=count, sinks=sinks, return_lse=True)
    empty = count == 0
    assert not out[0, empty].any()
    assert torch.equal(lse[0][:, empty], sinks[:, None].expand(2, int(empty.sum())))
    assert out[0, ~empty].abs().sum(-1).min() > 0


def test_h6_all_lists_empty_is_answered(target):
    attention = target.build(LISTED)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 140, 200))
    given = {"count": torch.zeros(140, dtype=torch.int32), "sinks": torch.tensor([0.25, 0.0])}
    out, lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True, **given)
    assert not out.any()
    assert torch.equal(lse[0, :, 0], given["sinks"])


def test_h8_a_call_between_two_others_changes_neither(target):
    first = target.build("attention first\nhead_dim 32\nmask = causal\n")
    other = target.build(spec("mask = kv % 2 == 0", head_dim=64))
    inputs = draw_inputs(first.spec, Shape(1, 2, 1, 150, 150))
    others = draw_inputs(other.spec, Shape(1, 1, 1, 140, 300))
    before = first(inputs.q, inputs.k, inputs.v)
    other(others.q, others.k, others.v)
    assert torch.equal(first(inputs.q, inputs.k, inputs.v), before)


@pytest.mark.parametrize("tiles", range(1, 10))
def test_b13_every_number_of_query_tiles_is_done_once_each(target, tiles):
    """B13's remap of tiles to thread blocks: the emulated GPU has four of them."""
    attention = target.build("attention causal\nhead_dim 16\nmask = causal\n")
    heads = max(1, 33 // tiles // 3)
    inputs = draw_inputs(attention.spec, Shape(1, heads, 1, 128 * tiles - 5, 64))
    assert target.agrees(attention, inputs)
