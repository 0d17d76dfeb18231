"""What a backward is given and leaves, without its kernels."""

import pytest
import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.backward_arguments import gradients_of, prepare
from attnspec.runtime.call import Call, Forward
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec

TEXT = """attention empty
head_dim 8
learned bias: f32[batch, len_kv]
learned table: bf16[heads, len_q, len_kv]
learned t: fp16
score = (score + bias[b, kv] + table[h, q, kv]) * t
"""
SCRATCH = {"tile_q": 128, "planes": 2, "width": 64, "turns": 0, "exact_words": 0}


@pytest.mark.parametrize(("len_q", "len_kv"), [(0, 0), (3, 0), (0, 4), (3, 4)])
def test_gradients_have_the_shape_and_type_of_their_tensors_where_those_have_no_elements_too(len_q: int, len_kv: int) -> None:
    spec = attnspec.build(TEXT).spec
    inputs = draw_inputs(spec, Shape(2, 2, 1, len_q, len_kv))
    layout = check_call(spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(spec, inputs.tensors, layout, inputs.q.device)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, False)
    learned = (True, True, True)
    prepared = prepare(call, Forward(inputs.dout, inputs.dlse, ()), inputs.dout, inputs.dlse, learned, SCRATCH)
    found = gradients_of(call, learned, prepared)
    assert [(one.shape, one.dtype) for one in found.tensors if one is not None] == [(one.shape, one.dtype) for one in declared]
    assert all(map(torch.equal, found.tensors, map(torch.zeros_like, declared)))
