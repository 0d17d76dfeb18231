"""Shapes, strides, dtypes and heads: public bug reports as cases (F2, F4, F6, F8, F9, F11, F14).

Every width that the language takes must run.
"""

import pytest
import torch
from attnspec.runtime import declared
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, starts

import attnspec
from tests.cases.attend import near, spec

PLAIN = "attention plain\nhead_dim 32\nmask = causal\n"


@pytest.mark.parametrize("widths", [*map(str, range(8, 129, 8)), "192, 128", "256"])
def test_f2_every_head_dim_runs(target, widths):
    assert target.is_right(f"attention wide\nhead_dim {widths}\nmask = causal\n", Shape(1, 1, 1, 5, 9))


@pytest.mark.parametrize("head_dim", [80, 96])
def test_f4_a_head_dim_that_is_no_power_of_two_decodes(target, head_dim):
    assert target.is_right(f"attention decode\nhead_dim {head_dim}\nmask = causal\n", Shape(1, 2, 1, 1, 133))


@pytest.mark.parametrize("change", ["expanded", "transposed"])
def test_f6_a_gradient_of_any_strides_is_taken(change):
    attention = attnspec.build(PLAIN)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 20, 20))
    leaves = [array.requires_grad_() for array in (inputs.q, inputs.k, inputs.v)]
    out = attention(*leaves)
    if change == "expanded":
        dout = torch.ones(1, dtype=out.dtype).expand(out.shape)
    else:
        dout = inputs.dout.transpose(1, 3).contiguous().transpose(1, 3)
    first = torch.autograd.grad(out, leaves, dout, retain_graph=True)
    second = torch.autograd.grad(out, leaves, dout.contiguous())
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_f6_strides_of_another_layout_are_taken_as_they_are(target):
    attention = target.build(PLAIN)
    inputs = draw_inputs(attention.spec, Shape(2, 2, 1, 20, 20))
    by_head = inputs.q.transpose(1, 2).contiguous().transpose(1, 2)
    packed = torch.cat([inputs.k, inputs.v], dim=2)
    expected = attention(inputs.q, inputs.k, inputs.v)
    assert torch.equal(attention(by_head, packed[:, :, :1], packed[:, :, 1:]), expected)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (lambda array: array.transpose(-1, -2).contiguous().transpose(-1, -2), ["q: stride 2 in the last axis", "contiguous"]),
        (lambda array: torch.zeros(1, 20, 2, 35).to(array)[..., :32], ["stride 70 (140 bytes) in axis 1", "16 bytes"]),
        (lambda array: torch.zeros(1, 20, 2, 40).to(array)[..., 4:36], ["starts 8 bytes past", "clone"]),
    ],
)
def test_f6_strides_that_no_copy_engine_takes_are_an_error(target, view, words):
    attention = target.build(PLAIN)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 20, 20))
    with pytest.raises(attnspec.ArgumentError) as error:
        attention(view(inputs.q), inputs.k, inputs.v)
    assert all(word in str(error.value) for word in words)


BIASED = spec("input bias: f32[len_q, len_kv]", "score = score + bias[q, kv]")


def biased(bias):
    q = torch.zeros(1, 2, 1, 16, dtype=torch.float16)
    k = torch.zeros(1, 3, 1, 16, dtype=torch.float16)
    return attnspec.build(BIASED)(q, k, k, bias=bias)


@pytest.mark.parametrize(
    ("bias", "words"),
    [
        (torch.zeros(2, 3, dtype=torch.bool), ["bias", "torch.bool", "f32", "mask"]),
        (torch.zeros(2, 3, dtype=torch.float64), ["bias", "torch.float64", "f32", "precision"]),
        (torch.zeros(2, 3, dtype=torch.int32), ["bias", "torch.int32", "f32"]),
        (torch.zeros(3, 2), ["bias", "(3, 2)", "[len_q, len_kv]", "(2, 3)", "len_q=2"]),
        (torch.zeros(1, 3), ["bias", "(1, 3)", "(2, 3)"]),
    ],
)
def test_f8_a_bias_of_another_type_or_shape_is_an_error_with_both(bias, words):
    with pytest.raises(attnspec.ArgumentError) as error:
        biased(bias)
    assert all(word in str(error.value) for word in words)


def test_f8_an_f32_bias_is_not_rounded_to_the_type_of_q(target):
    text = spec("input bias: f32[len_kv]", "score = score + bias[kv]")
    q = torch.zeros(1, 1, 1, 16, dtype=torch.float16)
    _, lse = target.build(text)(q, q, q, bias=torch.tensor([1.00001]), return_lse=True)
    assert lse.item() == torch.tensor(1.00001).item()


def test_f8_a_16_bit_bias_is_converted_exactly_and_gets_its_gradient_back():
    attention = attnspec.build(spec("learned bias: f32[len_kv]", "score = score + bias[kv]"))
    q = torch.zeros(1, 1, 1, 16, dtype=torch.float16)
    bias = torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True)
    _, lse = attention(q, q, q, bias=bias, return_lse=True)
    lse.sum().backward()
    assert lse.item() == 0.5
    assert bias.grad is not None
    assert bias.grad.dtype == torch.bfloat16
    assert bias.grad.item() == 1


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (40, 4), (7, 7), (71, 1)])
def test_f9_query_heads_share_key_heads_in_order(target, heads, kv_heads):
    attention = target.build(spec())
    q = torch.zeros(1, 4, heads, 16, dtype=torch.float16)
    v = torch.arange(kv_heads).half()[None, None, :, None].expand(1, 4, kv_heads, 16).contiguous()
    out = attention(q, torch.zeros_like(v), v)
    group = heads // kv_heads
    assert out[0, 0, :, 0].tolist() == [head // group for head in range(heads)]
    if not target.differentiates:
        return
    v.requires_grad_()
    (dv,) = torch.autograd.grad(attention(q, torch.zeros_like(v), v).sum(), v)
    assert dv.flatten().tolist() == near([group] * dv.numel())


@pytest.mark.parametrize("lengths", [[1] * 50, [63, 65, 127, 129]])
def test_f11_packed_sequences_of_odd_lengths(target, lengths):
    attention = target.build("attention packed\nhead_dim 32\nvarlen\nmask = causal\n")
    total = sum(lengths)
    drawn = draw_inputs(attention.spec, Shape(1, 2, 1, total, total))
    ends = {"cu_seqlens_q": starts(lengths), "cu_seqlens_kv": starts(lengths)}
    inputs = Inputs(drawn.q, drawn.k, drawn.v, {}, drawn.dout, drawn.dlse, ends)
    assert target.agrees(attention, inputs)


@pytest.mark.parametrize("wrong", [-1, 2**31 - 1])
def test_f14_a_wrong_number_in_an_index_list_reads_and_writes_nothing_else(wrong, monkeypatch):
    text = spec("input index: i32[len_kv] in 0..heads * 4 - 1", "learned bias: f32[heads * 4]", "score = score + bias[index[kv]]")
    attention = attnspec.build(text)
    room = torch.zeros(6)
    bias = room[1:5].requires_grad_()
    q = torch.zeros(1, 2, 1, 16, dtype=torch.float16)
    k = torch.zeros(1, 3, 1, 16, dtype=torch.float16)
    index = torch.tensor([1, wrong, 2])
    with pytest.raises(attnspec.ArgumentError, match=rf"index: {wrong} at \[1\], declared .* 0..3 here"):
        attention(q, k, k, index=index, bias=bias)
    monkeypatch.setattr(declared, "can_look", lambda array: False)  # as on a GPU, whose values are taken on trust
    _, lse = attention(q, k, k, index=index, bias=bias, return_lse=True)
    (found,) = torch.autograd.grad(lse.sum(), bias)
    end = 0 if wrong < 0 else 3
    assert [index for index in range(4) if found[index] > 0] == sorted({1, 2, end})
    assert room[0] == room[5] == 0
