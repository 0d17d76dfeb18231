"""The forward kernel that ships, run in the emulator, against the float64 oracle: every variant."""

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

# Ragged tiles, empty rows under bottom-right masks, one key, a long row of key tiles; two work tiles or more each.
SHAPES = [Shape(1, 2, 1, 300, 417), Shape(1, 2, 2, 4, 2), Shape(2, 1, 1, 1, 1), Shape(1, 2, 1, 130, 700)]
MANY_HEADS = 8  # a group; variants with more take shorter sequences
SEEDS = {"dense", "gemma2_local", "gpt_oss", "document_causal", "streaming_llm", "mla"}


def emulated(variant: str) -> attnspec.Attention:
    return attnspec.build(path_of(variant), on="emulator", **SMALL.get(variant, {}))


def assert_right(attention: attnspec.Attention, shape: Shape, seed: int = 0) -> None:
    rows = compare(attention, draw_inputs(attention.spec, fit_shape(attention.spec, shape), seed), forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


@pytest.mark.parametrize("variant", VARIANTS)
def test_emulated_forward_agrees_with_the_oracle(variant: str) -> None:
    attention = emulated(variant)
    many_heads = (attention.spec.group or 1) > MANY_HEADS
    for shape in SHAPES:
        assert_right(attention, Shape(1, 1, 1, min(shape.len_q, 130), min(shape.len_kv, 200)) if many_heads else shape)


@pytest.mark.slow
@pytest.mark.parametrize("variant", sorted(SEEDS))
def test_bits_are_the_same_for_every_timing(variant: str) -> None:
    attention = emulated(variant)
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, SHAPES[0]), 1)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, False)
    first, _ = program.run(call, None)
    for seed in range(20):
        again, _ = program.run(call, seed)
        assert torch.equal(again.out, first.out)
        assert torch.equal(again.lse, first.lse)


def test_nan_in_a_key_reaches_the_rows_that_see_it_and_no_others() -> None:
    attention = attnspec.build("attention causal\nhead_dim 64\nmask = kv <= q\n", on="emulator")
    q, k, v = (torch.randn(1, 300, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3))
    k[0, 200, 0, 3] = float("nan")
    out = attention(q, k, v)
    assert torch.isfinite(out[0, :200]).all()
    assert torch.isnan(out[0, 200:]).all()


def test_what_lies_beyond_the_sequence_changes_no_bit() -> None:
    attention = attnspec.build("attention plain\nhead_dim 64\n", on="emulator")
    whole = [torch.randn(1, 200, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3)]
    first = attention(*(tensor[:, :130] for tensor in whole))
    for tensor in whole:
        tensor[:, 130:] = float("nan")
    assert torch.equal(attention(*(tensor[:, :130] for tensor in whole)), first)


def test_range_that_depends_on_a_tensor_without_elements_reads_nothing() -> None:
    text = "attention late\nhead_dim 64\ninput first: i32[batch, len_kv]\nmask = kv >= first[b, 0]\n"
    attention = attnspec.build(text, on="emulator")
    q, k = torch.ones(1, 5, 1, 64).bfloat16(), torch.ones(1, 0, 1, 64).bfloat16()
    out, lse = attention(q, k, k, return_lse=True, first=torch.zeros(1, 0, dtype=torch.int32))
    assert not out.any()
    assert torch.isneginf(lse).all()
