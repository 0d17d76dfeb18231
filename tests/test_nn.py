"""`attnspec.nn.Attention`: parameters, how they start, and what of them is saved."""

import copy
import io
import pickle

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from attnspec import variants
from attnspec.nn import Attention


def parameters(module):
    return {name: tuple(array.shape) for name, array in module.named_parameters()}


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("causal", {}, {}),
        ("t5_bias", {"heads": 4}, {"bias": (4, 32)}),
        ("gpt_oss", {"heads": 16}, {"sinks": (16,)}),
        ("relative_bias", {"heads": 2}, {"bias": (2, 257)}),
        ("gated_bias", {"heads": 2}, {"bias": (2, 641)}),
        ("pair_bias", {"heads": 2}, {}),
        ("pair_bias", {"heads": 2, "len_q": 3, "len_kv": 5}, {"bias": (2, 3, 5)}),
        ("distance_bias", {"len_q": 3, "len_kv": 5}, {"bias": (7,)}),
        ("forgetting", {"heads": 2}, {}),
    ],
)
def test_parameters_are_the_learned_tensors_whose_sizes_are_known(name, sizes, expected):
    module = Attention(variants.path(name), **sizes)
    assert parameters(module) == expected
    assert set(module.state_dict()) == set(expected)


def test_a_shape_with_heads_needs_them():
    with pytest.raises(attnspec.ArgumentError, match=r"heads: missing: `learned bias: f32\[heads, 32\]` needs the"):
        Attention(variants.path("t5_bias"))


@pytest.mark.parametrize(
    ("name", "parameter", "expected"),
    [
        ("alibi_symmetric", "slopes", [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]),
        ("gpt_oss", "sinks", [0.0] * 8),
        ("head_temperature", "temperature", [1.0] * 4),
        ("cosine", "log_scale", [0.0] * 4),
    ],
)
def test_parameters_start_as_is_usual(name, parameter, expected):
    module = Attention(variants.path(name), heads=len(expected))
    assert module.get_parameter(parameter).tolist() == expected


def test_tables_start_small_and_normal():
    torch.manual_seed(0)
    bias = Attention(variants.path("relative_bias"), heads=8).get_parameter("bias")
    assert bias.std().item() == pytest.approx(0.02, rel=0.05)
    assert abs(bias.mean().item()) < 0.001


def test_a_start_of_ones_own_is_taken_and_taken_again():
    module = Attention(variants.path("t5_bias"), heads=2, initial={"bias": torch.arange(32.0)})
    module.get_parameter("bias").data.zero_()
    module.reset_parameters()
    assert torch.equal(module.get_parameter("bias"), torch.arange(32.0).expand(2, 32))
    filled = Attention(variants.path("t5_bias"), heads=2, initial={"bias": torch.nn.init.ones_})
    assert filled.get_parameter("bias").eq(1).all()
    with pytest.raises(attnspec.ArgumentError, match="initial: 'bais' is no parameter; there are bias"):
        Attention(variants.path("t5_bias"), heads=2, initial={"bais": 0.0})


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (torch.zeros(5), r"initial: 'bias': shape \(5,\), wanted a number, a function, or a tensor that broadcasts to \(2, 32\)"),
        (torch.zeros(1, 1, 2, 32), r"initial: 'bias': shape \(1, 1, 2, 32\), wanted"),
        ("zeros", "initial: 'bias': 'zeros', wanted"),
        (None, "initial: 'bias': None, wanted"),
    ],
)
def test_a_start_that_does_not_fit_is_an_error_that_says_what_does(start, message):
    with pytest.raises(attnspec.ArgumentError, match=message):
        Attention(variants.path("t5_bias"), heads=2, initial={"bias": start})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"heads": 0}, "heads: 0, wanted a whole number from 1 up"),
        ({"heads": -4}, "heads: -4, wanted"),
        ({"heads": 4.0}, "heads: 4.0, wanted"),
        ({"heads": True}, "heads: True, wanted"),
        ({"heads": 4, "kv_heads": 0}, "kv_heads: 0, wanted"),
        ({"heads": 4, "len_q": 0}, "len_q: 0, wanted"),
        ({"heads": 4, "len_kv": "8"}, "len_kv: '8', wanted"),
        ({"heads": 4, "kv_heads": 3}, "q: 4 heads cannot be shared out over 3 key/value heads in equal groups"),
    ],
)
def test_sizes_that_no_call_could_have_are_refused(sizes, message):
    with pytest.raises(attnspec.ArgumentError, match=message):
        Attention(variants.path("t5_bias"), **sizes)


def test_a_group_that_does_not_divide_the_heads_is_refused():
    with pytest.raises(attnspec.ArgumentError, match="declares `group 8`"):
        Attention("attention grouped\nhead_dim 8\ngroup 8\n", heads=12)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused_with_what_to_give(layout):
    q = torch.nested.nested_tensor([torch.zeros(3, 2, 8), torch.zeros(5, 2, 8)], dtype=torch.bfloat16, layout=layout)
    with pytest.raises(attnspec.ArgumentError, match=r"q: a dense tensor is wanted, got a nested one: .*varlen"):
        attnspec.build("attention dense\nhead_dim 8\n")(q, q, q)


@pytest.mark.parametrize("made", [lambda: Attention(variants.path("causal")), lambda: attnspec.from_flex(head_dim=64)])
def test_what_has_a_spec_is_told_to_give_it(made):
    with pytest.raises(attnspec.ArgumentError, match=r"a Spec is wanted, got \w+: give what it has in `\.spec`"):
        attnspec.build(made())


@pytest.mark.parametrize(
    ("given", "meant"), [("causal", "causal"), ("casual", "causal"), ("alibbi", "alibi"), ("T5_bias", "t5_bias")]
)
def test_a_name_that_is_nearly_a_standard_variant_s_is_told_how_to_build_it(given, meant):
    with pytest.raises(attnspec.ArgumentError, match=rf"there is no file '{given}' here; .*variants\.path\('{meant}'\)"):
        attnspec.build(given)


def test_a_module_gives_what_the_variant_gives_and_its_parameters_gradients():
    module = Attention(variants.path("gpt_oss"), heads=8, initial={"sinks": 0.5})
    attention = attnspec.build(variants.path("gpt_oss"))
    inputs = draw_inputs(attention.spec, Shape(1, 8, 1, 5, 7))
    out, lse = module(inputs.q, inputs.k, inputs.v, return_lse=True)
    sinks = torch.full((8,), 0.5, requires_grad=True)
    expected = attention(inputs.q, inputs.k, inputs.v, sinks=sinks, return_lse=True)
    torch.autograd.backward((out, lse), (inputs.dout, inputs.dlse))
    torch.autograd.backward(expected, (inputs.dout, inputs.dlse))
    assert torch.equal(out, expected[0])
    assert torch.equal(module.get_parameter("sinks").grad, sinks.grad)


def test_inputs_come_by_keyword_and_a_keyword_stands_for_a_parameter():
    module = Attention("attention two\nhead_dim 8\ninput a: f32\nlearned w: f32[heads]\nscore = score * a + w[h] * kv\n", heads=2)
    q = torch.randn(1, 3, 2, 8).bfloat16()
    zeros = module(q, q, q, a=1.0, w=torch.zeros(2))
    assert torch.equal(zeros, attnspec.build("attention one\nhead_dim 8\n")(q, q, q))
    assert not torch.equal(module(q, q, q, a=1.0, w=torch.ones(2)), zeros)
    with pytest.raises(attnspec.ArgumentError, match="missing keyword argument: a: f32"):
        module(q, q, q)


def test_device_and_dtype_are_those_of_the_parameters():
    module = Attention(variants.path("t5_bias"), heads=2, device="meta", dtype=torch.bfloat16)
    assert (module.get_parameter("bias").device.type, module.get_parameter("bias").dtype) == ("meta", torch.bfloat16)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_has_parameters_of_its_own(copied):
    module = Attention(variants.path("t5_bias"), heads=2)
    other = copied(module)
    assert torch.equal(other.get_parameter("bias"), module.get_parameter("bias"))
    assert other.get_parameter("bias") is not module.get_parameter("bias")
    assert other.spec == module.spec


def test_a_state_is_loaded_under_the_names_of_the_file():
    stream = io.BytesIO()
    module = Attention(variants.path("t5_bias"), heads=2)
    torch.save(module.state_dict(), stream)
    stream.seek(0)
    other = Attention(variants.path("t5_bias"), heads=2)
    other.load_state_dict(torch.load(stream))
    assert torch.equal(other.get_parameter("bias"), module.get_parameter("bias"))


def test_a_module_says_what_it_is():
    text = repr(Attention(variants.path("t5_bias"), heads=2))
    assert text == "Attention(t5_bias, head_dim=64, bf16, heads=2, kv_heads=2, bias=(2, 32))"


def test_a_name_that_modules_have_is_refused():
    with pytest.raises(attnspec.ArgumentError, match="train: a torch module has an attribute of this name"):
        Attention("attention named\nhead_dim 8\nlearned train: f32\nscore = score * train\n")
