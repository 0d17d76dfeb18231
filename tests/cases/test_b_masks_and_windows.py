"""Masks and windows: public bug reports as cases (B2, B3, B7, B8, B9, B11, B12, B13, B16).

B15's compiler version belongs to the GPU's tool chain.
"""

import math

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

from tests.cases.attend import attend, exactly_f32, near, spec

DOCUMENTS = """attention documents
head_dim 16
input ids: i32[len_kv]
mask = ids[clamp(q, 0, len_kv - 1)] == ids[kv] and causal
"""


@pytest.mark.parametrize(
    ("left", "right", "queries", "seen"),
    [(2, 0, 6, [1, 2, 3, 3, 3, 3]), (1, 1, 6, [2, 3, 3, 3, 3, 2]), (2, 0, 2, [3, 3])],
)
def test_b2_windows_are_inclusive_at_both_ends(target, left, right, queries, seen):
    assert target.counts(f"mask = window({left}, {right})", queries=queries, keys=6) == seen


@pytest.mark.parametrize("mask", ["window(64, 0)", "window(20, 20)"])
def test_b3_a_decode_step_gives_the_bits_of_its_row_in_the_whole(target, mask):
    attention = target.build(f"attention windowed\nhead_dim 64\nmask = {mask}\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 300))
    whole, whole_lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True)
    for row in (0, 127, 200, 299):
        step, lse = attention(inputs.q[:, row : row + 1], inputs.k, inputs.v, q_offset=row, len_q=300, return_lse=True)
        assert torch.equal(step[:, 0], whole[:, row])
        assert torch.equal(lse[..., 0], whole_lse[..., row])


def test_b3_the_window_holds_in_the_backward():
    assert attend(spec("mask = window(1, 0)"), 6, [0.0] * 6).dv == near([1.5, 1, 1, 1, 1, 0.5])


def test_b7_decoding_against_a_cache_gives_the_bits_of_the_row_in_the_whole(target):
    attention = target.build("attention local\nhead_dim 64\nmask = causal and window(64, none)\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 256, 256))
    whole = attention(inputs.q, inputs.k, inputs.v)
    step = attention(inputs.q[:, 200:201], inputs.k[:, :201], inputs.v[:, :201])
    assert torch.equal(step[:, 0], whole[:, 200])


def test_b8_a_mask_that_depends_on_the_batch_is_each_batchs_own(target):
    attention = target.build(spec("input length: i32[batch]", "mask = causal or kv < length[b]"))
    q = torch.zeros(2, 4, 1, 16, dtype=torch.float16)
    _, lse = attention(q, q, q, return_lse=True, length=torch.tensor([1, 3]))
    assert lse[:, 0].exp().round().tolist() == [[1, 2, 3, 4], [3, 3, 3, 4]]


def test_b9_a_table_that_ends_with_the_sequence_is_not_read_past_its_end(target):
    attention = target.build(DOCUMENTS)
    length = 2046
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, length, length))
    room = torch.full((length + 200,), 7, dtype=torch.int32)
    room[:length] = torch.arange(length) // 100
    before = attention(inputs.q, inputs.k, inputs.v, ids=room[:length])
    room[length:] = 20  # the last document's number, past the end
    assert torch.equal(attention(inputs.q, inputs.k, inputs.v, ids=room[:length]), before)


def test_b11_variants_do_not_leave_anything_behind_for_each_other(target):
    tree = target.build("attention tree\nhead_dim 16\ninput see: bool[len_q, len_kv]\nmask = see[q, kv]\n")
    causal = target.build("attention causal\nhead_dim 16\nmask = causal\n")
    inputs = draw_inputs(causal.spec, Shape(1, 1, 1, 40, 40))
    fresh = causal(inputs.q, inputs.k, inputs.v)
    tree(inputs.q, inputs.k, inputs.v, see=torch.rand(40, 40) < 0.5)
    assert torch.equal(causal(inputs.q, inputs.k, inputs.v), fresh)


@pytest.mark.parametrize("mask", ["q // 4 == kv // 4 and kv <= q", "(q - kv) % 3 == 0", "(kv - q) // 5 == -1"])
def test_b12_division_and_remainder_floor_in_both_passes(target, mask):
    attention = target.build(f"attention floors\nhead_dim 32\nmask = {mask}\n")
    assert target.agrees(attention, draw_inputs(attention.spec, Shape(1, 1, 1, 130, 130)))


def test_b12_chunked_and_dilated_masks_see_the_right_counts(target):
    assert target.counts("mask = chunked(4) and causal", queries=8, keys=8) == [1, 2, 3, 4, 1, 2, 3, 4]
    assert target.counts("mask = dilated(2) and window(4, 0)", queries=8, keys=8) == [1, 1, 2, 2, 3, 3, 3, 3]


@pytest.mark.parametrize("mask", ["true", "causal"])
def test_b13_packed_sequences_do_not_see_each_other(target, mask):
    attention = target.build(f"attention packed\nhead_dim 256\nvarlen\nmask = {mask}\n")
    starts = {"cu_seqlens_q": torch.tensor([0, 3, 10]), "cu_seqlens_kv": torch.tensor([0, 256, 385])}
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(10, 1, 256, generator=generator).bfloat16()
    k, v = (torch.randn(385, 1, 256, generator=generator).bfloat16() for _ in range(2))
    before, lse = attention(q, k, v, return_lse=True, **starts)
    k[:256], v[:256], q[:3] = 5.0, float("nan"), -4.0
    after, lse_after = attention(q, k, v, return_lse=True, **starts)
    assert torch.equal(after[3:], before[3:])
    assert torch.equal(lse_after[:, 3:], lse[:, 3:])


def test_b16_closed_form_counts_of_common_masks(target):
    assert target.counts("mask = (kv < 2 or window(2, 0)) and causal", queries=8, keys=8) == [1, 2, 3, 4, 5, 5, 5, 5]
    assert target.counts("mask = causal or prefix(3)", queries=8, keys=8) == [3, 3, 3, 4, 5, 6, 7, 8]
    ids = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2]])
    statements = ("input ids: i32[batch, len_kv] sorted", "mask = ids[b, clamp(q, 0, len_kv - 1)] == ids[b, kv] and causal")
    assert target.counts(*statements, queries=8, keys=8, ids=ids) == [1, 2, 3, 1, 2, 1, 2, 3]


def test_b16_a_row_that_sees_two_ranges(target):
    found = target.attend(spec("mask = kv < 3 or kv >= 5 and kv < 8"), 1, [float(key) for key in range(10)])
    assert found.out == near([3.5])
    assert found.lse == exactly_f32([math.log(6)])
