"""The forward kernel for sm_90a, run in the emulator, against the float64 oracle."""

from typing import Any

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulation import emulation

import attnspec
from tests.small_constants import SMALL, VARIANTS, path_of

# Ragged tiles, empty rows under bottom-right masks, one key, a long row of key tiles; two work tiles or more each.
SHAPES = [Shape(1, 2, 1, 300, 417), Shape(1, 2, 2, 4, 2), Shape(2, 1, 1, 1, 1), Shape(1, 2, 1, 130, 700)]
MANY_HEADS = 8  # a group; variants with more take shorter sequences
FAST = {"gemma2_local", "gpt_oss"}
DIMS = ("8", "40", "96", "128, 64", "192, 128", "136, 200", "256")


def emulated(source: object, **constants: int | float) -> attnspec.Attention:
    return attnspec.build(source, target="sm90", on="emulator", **constants)  # pyright: ignore[reportArgumentType]


def assert_right(attention: attnspec.Attention, shape: Shape, seed: int = 0) -> None:
    rows = compare(attention, draw_inputs(attention.spec, fit_shape(attention.spec, shape), seed), forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


@pytest.mark.parametrize("variant", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS])
def test_emulated_forward_agrees_with_the_oracle(variant: str) -> None:
    attention = emulated(path_of(variant), **SMALL.get(variant, {}))
    many_heads = (attention.spec.group or 1) > MANY_HEADS
    for shape in SHAPES:
        assert_right(attention, Shape(1, 1, 1, min(shape.len_q, 130), min(shape.len_kv, 200)) if many_heads else shape)


@pytest.mark.slow
@pytest.mark.parametrize("dims", DIMS)
def test_head_dimension_is_right(dims: str) -> None:
    attention = emulated(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n")
    for shape in SHAPES[:2]:
        assert_right(attention, shape)


@pytest.mark.slow
def test_bits_are_the_same_for_every_timing() -> None:
    attention = emulated(path_of("gpt_oss"), window=60)
    inputs = draw_inputs(attention.spec, Shape(1, 8, 1, 200, 300), 1)
    results = []
    for seed in (None, *range(8)):
        with emulation(seed):
            tensors: Any = inputs.tensors
            results.append(attention(inputs.q, inputs.k, inputs.v, **tensors))
    assert all(torch.equal(one, results[0]) for one in results)


def causal_tensors(rows: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(1, rows, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3))


def test_nan_in_a_key_or_a_value_reaches_the_rows_that_see_it_and_no_others() -> None:
    attention = emulated("attention causal\nhead_dim 64\nmask = kv <= q\n")
    q, k, v = causal_tensors(300)
    k[0, 200, 0, 3] = float("nan")
    v[0, 100, 0, 5] = float("inf")
    out = attention(q, k, v)
    assert torch.isfinite(out[0, :100]).all()
    assert torch.isfinite(out[0, 100:200, 0, :5]).all() and torch.isinf(out[0, 100:200, 0, 5]).all()
    assert torch.isnan(out[0, 200:]).all()


def test_what_lies_beyond_the_sequence_changes_no_bit() -> None:
    attention = emulated("attention causal\nhead_dim 64\nmask = kv <= q\n")
    whole = causal_tensors(200)
    first = attention(*(tensor[:, :130] for tensor in whole))
    for tensor in whole:
        tensor[:, 130:] = float("nan")
    assert torch.equal(attention(*(tensor[:, :130] for tensor in whole)), first)
