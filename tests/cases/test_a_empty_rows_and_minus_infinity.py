"""Empty rows, alignment, and minus infinity: public bug reports as cases (A1, A2, A4, A5, A6, A8, A11)."""

import math

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

from tests.cases.attend import INF, exactly_f32, near, spec

LN2 = math.log(2)


def test_a1_more_queries_than_keys_leave_the_first_rows_empty_when_aligned_at_the_end(target):
    found = target.attend(spec("mask = causal"), 4, [1.0, 2.0], dlse=1.0)
    assert found.out == [0, 0, 1, 1.5]
    assert found.lse == exactly_f32([-INF, -INF, 0, LN2])
    assert all(math.isfinite(value) for value in found.dlogits + found.dv)


def test_a1_more_queries_than_keys_leave_no_row_empty_when_aligned_at_the_start(target):
    found = target.attend(spec("mask = causal_top_left"), 4, [1.0, 2.0])
    assert found.out == [1, 1.5, 1.5, 1.5]
    assert found.lse == exactly_f32([0, LN2, LN2, LN2])


def test_a2_fewer_queries_than_keys_are_aligned_as_the_mask_says(target):
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    last = target.attend(spec("mask = kv <= qpos"), 2, values)
    first = target.attend(spec("mask = kv <= q"), 2, values)
    assert (last.out, first.out) == ([2.5, 3.0], [1, 1.5])
    assert last.lse == exactly_f32([math.log(4), math.log(5)])
    assert first.lse == exactly_f32([0, LN2])


@pytest.mark.parametrize("head_dim", [8, 16, 64, 128])
def test_a4_one_query_and_one_key_give_the_value_and_no_gradient_of_the_score(target, head_dim):
    attention = target.build(f"attention one\nhead_dim {head_dim}\ndtype fp16\n")
    generator = torch.Generator().manual_seed(0)
    q, k, v, dout = (3 * torch.randn(1, 1, 1, head_dim, generator=generator).half() for _ in range(4))
    out, lse = attention(q, k, v, return_lse=True)
    assert torch.equal(out, v)
    assert lse.item() == pytest.approx((q.double() * k.double()).sum().item() / math.sqrt(head_dim), rel=1e-6)
    if not target.differentiates:
        return
    leaves = [array.requires_grad_() for array in (q, k, v)]
    dq, dk, dv = torch.autograd.grad(attention(*leaves), leaves, dout)
    assert torch.equal(dv, dout)
    # Zero but for the order of two f32 sums of products up to 9 * head_dim, times |k|.
    assert max(dq.abs().max().item(), dk.abs().max().item()) <= 2.0**-20 * 9 * head_dim


@pytest.mark.parametrize(("visible", "lse"), [(1, -65536.0), (2, -65536.0 + LN2)])
def test_a5_scores_far_below_any_sentinel_are_seen(target, visible, lse):
    attention = target.build(spec(f"mask = kv < {visible}").replace("scale 1.0", "scale 0.125"))
    q, k, v = (torch.zeros(1, count, 1, 16, dtype=torch.float16) for count in (1, 3, 3))
    q[..., 0], k[..., 0] = 1024, -512
    v[0, :, 0, 0] = torch.tensor([0.1, 0.7, 9.0])
    out, found = attention(q, k, v, return_lse=True)
    assert out[0, 0, 0, 0] == v[0, :visible, 0, 0].float().mean().half()
    assert found.item() == torch.tensor(lse, dtype=torch.float32).item()


@pytest.mark.parametrize("mask", ["kv >= 256", "kv > qpos - 70 and kv <= qpos", "(q + kv) % 3 == 0 and kv >= 130"])
def test_a6_a_first_tile_that_rows_do_not_see_adds_nothing(target, mask):
    attention = target.build(f"attention late\nhead_dim 32\nmask = {mask}\n")
    assert target.agrees(attention, draw_inputs(attention.spec, Shape(1, 1, 1, 130, 384)))


def test_a6_garbage_in_keys_that_no_row_sees_changes_no_bit(target):
    attention = target.build("attention late\nhead_dim 32\nmask = kv >= 200\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 130, 384))
    clean = attention(inputs.q, inputs.k, inputs.v)
    k, v = inputs.k.clone(), inputs.v.clone()
    k[:, :200], v[:, :200] = float("nan"), float("inf")
    assert torch.equal(attention(inputs.q, k, v), clean)


@pytest.mark.parametrize(("queries", "keys"), [(0, 8), (8, 0), (0, 0)])
@pytest.mark.parametrize("has_sink", [False, True])
def test_a8_no_queries_or_no_keys_are_answered(target, queries, keys, has_sink):
    sink = ("learned s: f32[heads]", "sink = s[h]") if has_sink else ()
    tensors = {"s": torch.tensor([1.5])} if has_sink else {}
    found = target.attend(spec("mask = causal", *sink), queries, [1.0] * keys, dlse=1.0, **tensors)
    assert found.out == [0.0] * queries
    assert found.lse == [1.5 if has_sink else -INF] * queries
    assert found.dv == [0.0] * (keys if target.differentiates else 0)
    if has_sink and target.differentiates:
        assert found.learned["s"].tolist() == [float(queries)]


def test_a11_a_nan_query_makes_its_own_row_nan_and_no_other(target):
    attention = target.build("attention plain\nhead_dim 32\nmask = causal\n")
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 140, 140))
    clean = attention(inputs.q, inputs.k, inputs.v)
    q = inputs.q.clone()
    q[0, 5] = float("nan")
    found = attention(q, inputs.k, inputs.v)
    others = [row for row in range(140) if row != 5]
    assert found[0, 5].isnan().all()
    assert torch.equal(found[0, others], clean[0, others])


def test_a_mean_of_two_equal_scores_is_the_mean(target):
    assert target.attend(spec(), 1, [1.0, 2.0], [3.0, 3.0]).out == near([1.5])
