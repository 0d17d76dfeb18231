"""Lengths and batches of 0, where declared tensors have no elements: read by walks, scores and sinks all the same."""

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec

HEADER = "attention empty\nhead_dim 8\ndtype fp16\n"
READERS = {
    "a bound of the walk": "input first: i32[batch, len_kv]\nmask = kv >= first[b, 0]\n",
    "a condition of the walk": "input flag: bool[batch, len_kv]\nmask = flag[b, 0] or kv < q\n",
    "a search": "input ends: i32[len_kv, 8] sorted\nmask = ends[0, min(kv, 7)] < q\n",
    "a score": "learned t: f32[len_kv, len_q]\nscore = score + t[len_kv - 1, q] + t[kv, len_q - 1]\n",
    "a distance": "learned t: f32[heads, len_q + len_kv - 1]\nscore = score + t[h, q - kv + len_kv - 1]\n",
    "a sink": "learned t: f32[len_q]\nlearned u: f32[len_kv]\nmask = causal\nsink = t[len_q - 1] + u[0]\n",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("len_q", "len_kv"), [(0, 8), (8, 0), (0, 0)])
def test_a_tensor_of_no_elements_may_be_read(reader, len_q, len_kv):
    attention = attnspec.build(HEADER + READERS[reader])
    rows = compare(attention, draw_inputs(attention.spec, Shape(2, 4, 2, len_q, len_kv)))
    assert all(row.is_right for row in rows)


def test_a_batch_of_nothing_keeps_its_lengths():
    attention = attnspec.build(HEADER + "learned t: f32[len_q + len_kv]\nscore = score + t[q - kv + len_kv]\n")
    q, k = torch.zeros(0, 3, 4, 8, dtype=torch.float16), torch.zeros(0, 5, 2, 8, dtype=torch.float16)
    table = torch.zeros(8, requires_grad=True)
    out, lse = attention(q, k, k, return_lse=True, t=table)
    assert (out.shape, lse.shape) == (q.shape, (0, 4, 3))
    (gradient,) = torch.autograd.grad(out.sum() + lse.sum(), table)
    assert gradient.tolist() == [0] * 8
