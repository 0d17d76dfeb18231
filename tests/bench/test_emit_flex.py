"""A spec's functions for FlexAttention compute what the spec says: held against our reference, on the CPU, uncompiled."""

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape

import attnspec
from attnspec.bench.contenders import flex
from attnspec.bench.draw import draw_for_bench
from attnspec.bench.emit_flex import emit_flex
from attnspec.bench.load_flex import load_flex
from attnspec.bench.race import with_gradients
from tests.small_constants import SMALL, VARIANTS, path_of

DENSE = [name for name in VARIANTS if name != "packed_varlen"]
QUICK = ("differential", "document_causal", "gpt_oss", "softcap", "t5_bias")  # every form of what is emitted; the others are slow
SIZES = {"swin_shifted": 256, "natten_2d": 500}  # of images whose sides are constants


def attention_and_inputs(variant: str):
    attention = attnspec.build(path_of(variant), **SMALL.get(variant, {}))
    length = SIZES.get(variant, 70)
    shape = fit_shape(attention.spec, Shape(2, 4, 2, length, SIZES.get(variant, 90)))
    return attention, draw_inputs(attention.spec, shape)


@pytest.fixture(autouse=True)
def quick_and_quiet(monkeypatch):
    from torch.nn.attention import flex_attention

    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DENSE])
def test_every_standard_variant_is_the_same_in_flex_attention(variant):
    attention, inputs = attention_and_inputs(variant)
    contender = flex(attention.spec, inputs, "flex", None, False)
    assert contender.call is not None
    expected = attention(inputs.q, inputs.k, inputs.v, **inputs.tensors)
    scale = expected.float().abs().max()
    assert (contender.call().float() - expected.float()).abs().max() <= 2**-6 * scale  # P and O have 8 bits there


def plainly(spec, inputs):
    """What flex_attention does with its functions, all scores at once: it has no backward on the CPU."""
    (batch, len_q, heads, _), (_, len_kv, kv_heads, _) = inputs.q.shape, inputs.k.shape
    tensors = [inputs.tensors[tensor.name] for tensor in spec.tensors]
    made = load_flex(spec, tensors, batch, heads, kv_heads, len_q, len_kv)
    q, k, v = (array.float().transpose(1, 2) for array in (inputs.q, inputs.k, inputs.v))
    k, v = (array.repeat_interleave(heads // kv_heads, 1) for array in (k, v))
    sizes = (batch, heads, len_q, len_kv)
    places = [torch.arange(size).view([-1 if at == axis else 1 for at in range(4)]) for axis, size in enumerate(sizes)]
    score = made.score_mod(q @ k.mT * made.scale, *places)
    score = torch.where(made.mask_mod(*places), score, float("-inf")) if made.mask_mod else score
    if made.sink is not None:
        score = torch.cat([score, made.sink[None, :, None, None].expand(batch, heads, len_q, 1)], -1)
    return (score.softmax(-1)[..., :len_kv] @ v).transpose(1, 2).to(inputs.q.dtype)


@pytest.mark.parametrize("variant", ["gemma2_global", "head_temperature", "t5_bias"])
def test_gradients_of_the_functions_are_those_of_the_variant(variant):
    attention, drawn = attention_and_inputs(variant)
    inputs = with_gradients(attention.spec, drawn)
    leaves = [array for array in (inputs.q, inputs.k, inputs.v, *inputs.tensors.values()) if array.requires_grad]
    found = torch.autograd.grad(plainly(attention.spec, inputs), leaves, inputs.dout)
    expected = torch.autograd.grad(attention(inputs.q, inputs.k, inputs.v, **inputs.tensors), leaves, inputs.dout)
    for one, other in zip(found, expected, strict=True):
        assert (one.float() - other.float()).abs().max() <= 2**-4 * other.float().abs().max()


def test_the_functions_can_be_read():
    text = emit_flex(attnspec.build("attention shown\nhead_dim 64\nscore = softcap(score, 30.0)\nmask = causal\n").spec).text
    assert "SCALE = 0.125\n" in text
    assert "def score_mod(score, b, h, q, kv):" in text
    assert "30.0 * F.tanh(score / 30.0)" in text


def test_a_plain_score_has_no_function_of_its_own():
    text = emit_flex(attnspec.build("attention plain\nhead_dim 64\nmask = causal\n").spec).text
    assert "def score_mod" not in text


def test_documents_to_time_are_of_a_usable_length():
    spec = attnspec.build(path_of("document_causal")).spec
    inputs = draw_for_bench(spec, Shape(2, 2, 2, 64, 64), 4)
    expected = [[0] * 16 + [1] * 16 + [2] * 16 + [3] * 16] * 2
    assert inputs.tensors["ids_q"].tolist() == inputs.tensors["ids_kv"].tolist() == expected
