"""The contract's rules on rows, NaN and bits (DESIGN section 4: rules 1, 6 and 7) through the public API."""

import pytest
import torch
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs

import attnspec

CAUSAL = "attention causal\nhead_dim 64\nmask = causal\nlearned bias: f32[heads]\nscore = softcap(score + bias[h], 9.0)\n"


def gradients(attention, inputs: Inputs, **keywords):
    leaves = [array.detach().clone().requires_grad_() for array in (inputs.q, inputs.k, inputs.v)]
    out, lse = attention(*leaves, return_lse=True, **inputs.tensors, **keywords)
    return out, lse, *torch.autograd.grad((out, lse), leaves, (inputs.dout, inputs.dlse))


def test_a_rows_bits_do_not_depend_on_the_batch():
    attention = attnspec.build(CAUSAL)
    seven = draw_inputs(attention.spec, Shape(7, 2, 1, 150, 150))
    one = Inputs(*(array[3:4] for array in (seven.q, seven.k, seven.v)), seven.tensors, seven.dout[3:4], seven.dlse[3:4])
    for whole, alone in zip(gradients(attention, seven), gradients(attention, one), strict=True):
        assert torch.equal(whole[3:4], alone)


@pytest.mark.parametrize("group", [1, 3])
def test_a_rows_bits_do_not_depend_on_other_heads(group):
    attention = attnspec.build("attention causal\nhead_dim 64\nmask = causal\n")
    many = draw_inputs(attention.spec, Shape(1, 3 * group, 3, 150, 150))
    heads = slice(group, 2 * group)
    one = Inputs(many.q[:, :, heads], many.k[:, :, 1:2], many.v[:, :, 1:2], {}, many.dout[:, :, heads], many.dlse[:, heads])
    whole, alone = gradients(attention, many), gradients(attention, one)
    assert torch.equal(whole[0][:, :, heads], alone[0])
    assert torch.equal(whole[1][:, heads], alone[1])
    assert torch.equal(whole[3][:, :, 1:2], alone[3])


def test_a_rows_bits_do_not_depend_on_other_rows():
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 300))
    whole, whole_lse, *_ = gradients(attention, inputs)
    for first, last in ((0, 1), (126, 131), (299, 300)):
        part, lse = attention(
            inputs.q[:, first:last], inputs.k, inputs.v, q_offset=first, len_q=300, return_lse=True, **inputs.tensors
        )
        assert torch.equal(part, whole[:, first:last])
        assert torch.equal(lse, whole_lse[..., first:last])


def test_bits_do_not_depend_on_the_number_of_threads():
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(2, 4, 2, 200, 300))
    alone = gradients(attention, inputs)
    torch.set_num_threads(2)
    assert all(torch.equal(a, b) for a, b in zip(alone, gradients(attention, inputs), strict=True))


def test_empty_rows_give_and_take_no_gradient():
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 5, 2))
    loud = Inputs(inputs.q, inputs.k, inputs.v, inputs.tensors, inputs.dout.clone(), inputs.dlse.clone())
    loud.dout[:, :3], loud.dlse[..., :3] = float("inf"), float("nan")
    quiet_results, loud_results = gradients(attention, inputs), gradients(attention, loud)
    assert (quiet_results[0][:, :3] == 0).all()
    assert (quiet_results[2][:, :3] == 0).all()
    assert all(torch.equal(a, b) for a, b in zip(quiet_results, loud_results, strict=True))


@pytest.mark.parametrize("name", ["k", "v"])
def test_a_nan_key_or_value_reaches_the_rows_that_see_it_and_no_other(name):
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 200, 200))
    spoiled = Inputs(inputs.q, inputs.k.clone(), inputs.v.clone(), inputs.tensors, inputs.dout, inputs.dlse)
    getattr(spoiled, name)[0, 140, 0, 3] = float("nan")
    clean, found = gradients(attention, inputs), gradients(attention, spoiled)
    out, dq = 0, 2
    assert torch.equal(found[out][:, :140], clean[out][:, :140])
    assert torch.equal(found[dq][:, :140], clean[dq][:, :140])
    assert found[out][0, 140:, :, 3].isnan().all()


def test_an_infinite_value_is_infinite_in_the_rows_that_see_it_and_no_other():
    attention = attnspec.build("attention causal\nhead_dim 64\nmask = causal\n")
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 20, 20))
    clean = attention(inputs.q, inputs.k, inputs.v)
    v = inputs.v.clone()
    v[0, 10, 0, 3] = float("inf")
    found = attention(inputs.q, inputs.k, v)
    assert torch.equal(found[:, :10], clean[:, :10])
    assert (found[0, 10:, 0, 3] == float("inf")).all()
    assert torch.equal(found[0, 10:, 0, :3], clean[0, 10:, 0, :3])


def test_a_nan_gradient_of_a_row_reaches_the_keys_that_it_sees_and_no_other():
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 200, 200))
    spoiled = Inputs(inputs.q, inputs.k, inputs.v, inputs.tensors, inputs.dout.clone(), inputs.dlse)
    spoiled.dout[0, 50] = float("nan")
    clean, found = gradients(attention, inputs), gradients(attention, spoiled)
    for dk_or_dv in (3, 4):
        assert torch.equal(found[dk_or_dv][:, 51:], clean[dk_or_dv][:, 51:])
        assert found[dk_or_dv][:, :51].isnan().all()


def test_what_lies_past_a_sequence_changes_no_bit():
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(2, 2, 1, 70, 100))
    room_k, room_v = (torch.full((2, 150, 1, 64), float("nan"), dtype=torch.bfloat16) for _ in range(2))
    room_k[:, :100], room_v[:, :100] = inputs.k, inputs.v
    expected = attention(inputs.q, inputs.k, inputs.v, **inputs.tensors)
    assert torch.equal(attention(inputs.q, room_k[:, :100], room_v[:, :100], **inputs.tensors), expected)


def test_a_shard_of_the_queries_and_keys_sees_the_positions_of_the_whole():
    text = "attention sharded\nhead_dim 32\ninput bias: f32[len_q, len_kv]\nscore = score + bias[q, kv]\nmask = window(90, 0)\n"
    attention = attnspec.build(text)
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 256, 300))
    whole = attention(inputs.q, inputs.k, inputs.v, **inputs.tensors)
    # Queries 128.. see keys from 128 + 44 - 90 = 82 on.
    places = {"q_offset": 128, "kv_offset": 82, "len_q": 256, "len_kv": 300}
    part = attention(inputs.q[:, 128:], inputs.k[:, 82:], inputs.v[:, 82:], **places, **inputs.tensors)
    assert torch.allclose(part.float(), whole[:, 128:].float(), rtol=2.0**-7, atol=2.0**-16)


def test_a_long_window_visits_its_own_tiles_alone():
    attention = attnspec.build("attention long\nhead_dim 8\nmask = window(100, 0)\n")
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 32768, 32768))
    out = attention(inputs.q, inputs.k, inputs.v)
    tail = attention(inputs.q[:, -64:], inputs.k[:, -256:], inputs.v[:, -256:])
    assert torch.allclose(out[:, -64:].float(), tail.float(), rtol=2.0**-7, atol=2.0**-16)
