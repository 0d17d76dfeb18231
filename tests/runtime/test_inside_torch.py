"""A variant among what else people do with torch: other defaults, copies, transforms of functions."""

import copy
import pickle

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec

TEXT = """attention inside
head_dim 8
learned slope: f32[heads]
score = score * slope[h] + (0.5 if kv % 2 == 0 else 1.0)
mask = causal
sink = slope[h]
"""
INPUTS = draw_inputs(attnspec.build(TEXT).spec, Shape(2, 4, 2, 5, 7))


def results(attention):
    """out, lse, and the gradients of q and of the learned tensor."""
    q, slope = (array.detach().clone().requires_grad_() for array in (INPUTS.q, INPUTS.tensors["slope"]))
    out, lse = attention(q, INPUTS.k, INPUTS.v, return_lse=True, slope=slope)
    return (out, lse, *torch.autograd.grad((out, lse), (q, slope), (INPUTS.dout, INPUTS.dlse)))


def are_equal(one, other):
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_default_dtype_changes_nothing():
    expected = results(attnspec.build(TEXT))
    torch.set_default_dtype(torch.float64)
    try:
        assert are_equal(results(attnspec.build(TEXT)), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_default_device_changes_nothing():
    expected = results(attnspec.build(TEXT))
    with torch.device("meta"):
        assert are_equal(results(attnspec.build(TEXT)), expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda attention: pickle.loads(pickle.dumps(attention))])
def test_a_variant_that_was_used_can_be_copied(copied):
    attention = attnspec.build(TEXT)
    expected = results(attention)
    assert are_equal(results(copied(attention)), expected)
