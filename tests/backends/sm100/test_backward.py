"""The backward kernels that ship, run in the emulator through autograd, against the float64 oracle."""

import pytest
import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import compare
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from tests.small_constants import SMALL, VARIANTS, path_of

QUICK = {"softcap"}
# Ragged tiles and two heads a key head; rows that see nothing.
SHAPES = [Shape(1, 2, 1, 200, 300), Shape(1, 2, 2, 4, 2)]
MANY_HEADS = 8  # a group; variants with more take shorter sequences
CTAS = 2


def emulated(variant: str) -> attnspec.Attention:
    return attnspec.build(path_of(variant), on="emulator", **SMALL.get(variant, {}))


def assert_right(attention: attnspec.Attention, shape: Shape, seed: int = 0) -> None:
    rows = compare(attention, draw_inputs(attention.spec, fit_shape(attention.spec, shape), seed))
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def variants() -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


@pytest.mark.parametrize("variant", variants())
def test_emulated_gradients_agree_with_the_oracle(variant: str) -> None:
    attention = emulated(variant)
    if (attention.spec.group or 1) > MANY_HEADS:
        assert_right(attention, Shape(1, 1, 1, 20, 30))
        return
    for shape in SHAPES:
        assert_right(attention, shape)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["256", "136", "64, 256", "256, 64", "200, 128"])
def test_wide_heads_gradients_agree_with_the_oracle(dims: str) -> None:
    attention = attnspec.build(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n", on="emulator")
    assert_right(attention, Shape(1, 2, 1, 130, 200))


@pytest.mark.slow
def test_gradients_of_keys_and_values_have_the_same_bits_for_every_timing() -> None:
    attention = emulated("causal")
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, Shape(1, 2, 1, 260, 260)), 1)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, False)
    results = program.forward(call)

    def gradients(seed: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        found, _ = program.made_backward.run(call, results, inputs.dout, inputs.dlse, CTAS, seed)
        return found.dk, found.dv

    first = gradients(None)
    for seed in range(10):
        assert all(map(torch.equal, gradients(seed), first)), seed


def test_value_gradient_of_keys_that_no_query_sees_is_zero() -> None:
    attention = attnspec.build("attention early\nhead_dim 64\nmask = kv < 40\n", on="emulator")
    q, k, v = (torch.randn(1, 150, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3))
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    _, dk, dv = torch.autograd.grad(attention(*leaves).float().square().sum(), leaves)
    assert dv[0, :40].any(dim=-1).all()
    assert not dk[0, 40:].any()
    assert not dv[0, 40:].any()


@pytest.mark.slow
@pytest.mark.parametrize("dim", [64, 96])
def test_single_visible_key_has_no_gradient_of_query_and_key(dim: int) -> None:
    attention = attnspec.build(f"attention own\nhead_dim {dim}\nmask = kv == q\n", on="emulator")
    leaves = [torch.randn(1, 140, 1, dim).bfloat16().requires_grad_() for _ in range(3)]
    upstream = torch.randn(1, 140, 1, dim).bfloat16()
    dq, dk, dv = torch.autograd.grad(attention(*leaves), leaves, upstream)
    assert not dq.any()
    assert not dk.any()
    assert torch.allclose(dv.float(), upstream.float(), rtol=2.0**-7)


@pytest.mark.slow
def test_what_lies_beyond_the_sequence_changes_no_bit_of_a_gradient() -> None:
    attention = attnspec.build("attention plain\nhead_dim 64\n", on="emulator")
    whole = [torch.randn(1, 200, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3)]

    def gradients() -> tuple[torch.Tensor, ...]:
        leaves = [tensor[:, :130].detach().requires_grad_() for tensor in whole]
        return torch.autograd.grad(attention(*leaves).float().sum(), leaves)

    first = gradients()
    for tensor in whole:
        tensor[:, 130:] = float("nan")
    assert all(map(torch.equal, gradients(), first))


@pytest.mark.slow
def test_learned_sink_without_keys_has_the_gradient_of_the_lse_alone() -> None:
    attention = attnspec.build("attention lone\nhead_dim 64\nlearned sinks: f32[heads]\nsink = sinks[h]\n", on="emulator")
    q, k = torch.randn(1, 5, 2, 64).bfloat16(), torch.randn(1, 0, 2, 64).bfloat16()
    sinks = torch.tensor([0.5, -1.0], requires_grad=True)
    _, lse = attention(q, k, k, return_lse=True, sinks=sinks)
    (gradient,) = torch.autograd.grad(lse.sum(), sinks)
    assert torch.equal(gradient, torch.tensor([5.0, 5.0]))


@pytest.mark.slow
def test_part_of_a_longer_sequence_has_the_references_gradients() -> None:
    text = "attention causal\nhead_dim 64\nmask = kv <= qpos\n"
    lengths = ((0, 150), (1, 200), (2, 200))
    whole = [torch.randn(1, length, 2, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at, length in lengths]

    def gradients(**target: str) -> tuple[torch.Tensor, ...]:
        leaves = [tensor.clone().requires_grad_() for tensor in whole]
        out = attnspec.build(text, **target)(*leaves, q_offset=70, kv_offset=30, len_q=400, len_kv=380)
        return torch.autograd.grad(out.float().square().sum(), leaves)

    for found, wanted in zip(gradients(on="emulator"), gradients(target="reference"), strict=True):
        assert float((found.float() - wanted.float()).abs().max()) < 2**-6 * float(wanted.abs().max())
