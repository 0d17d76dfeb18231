"""The forward in which two CTAs share keys and values, run in the emulator against the float64 oracle."""

import re
from functools import cache
from typing import Any

import pytest
import torch
from attnspec.backends.sm100.backend import emit
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import compare
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape, starts
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from attnspec.errors import ArgumentError, TargetError
from tests.golden_text import check_golden
from tests.small_constants import SMALL, VARIANTS, path_of

PLAIN = "attention plain\nhead_dim 128\n"
CAUSAL = "attention causal\nhead_dim 64\nmask = kv <= qpos\n"
PACKED = CAUSAL + "varlen\n"
MANY_HEADS = 8  # of a group
SEEDS = 20


@cache
def paired(text: str, **constants: Any) -> attnspec.Attention:
    return attnspec.build(text, on="emulator", ctas=2, **constants)


def assert_right(attention: attnspec.Attention, inputs: Inputs) -> None:
    rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def drawn(attention: attnspec.Attention, shape: Shape) -> Inputs:
    return draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1)


def assert_same_bits_for_every_timing(attention: attnspec.Attention, inputs: Inputs, seeds: int) -> None:
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing(**inputs.keywords))
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, False)
    first, _ = program.run(call, None)
    for seed in range(seeds):
        again, _ = program.run(call, seed)
        assert torch.equal(again.out, first.out)
        assert torch.equal(again.lse, first.lse)


def test_module_of_a_pair_is_the_golden_text() -> None:
    analysed = stages.analyse(stages.read(path_of("dense")))
    schedule = stages.place(stages.draw(analysed, ctas=2), analysed)
    check_golden("sm100_forward_pair_dense.txt", emit(analysed, schedule).module("forward").text)


def test_dense_pair_agrees_with_the_oracle() -> None:
    attention = paired(PLAIN)
    assert_right(attention, drawn(attention, Shape(1, 1, 1, 300, 417)))


def test_causal_pair_whose_ctas_need_different_keys_agrees_with_the_oracle() -> None:
    """Of 700 rows, the first 300 see no key, the 212 after them up to 212, and of the next 512 two query tiles do not exist."""
    attention = paired(CAUSAL)
    inputs = drawn(attention, Shape(1, 1, 1, 700, 400))
    assert_right(attention, inputs)
    assert_same_bits_for_every_timing(attention, inputs, 2)


def test_every_tensor_instruction_is_of_both_ctas() -> None:
    program = stages.kernel(paired(CAUSAL), "sm100").program
    assert isinstance(program, EmulatedProgram)
    words = set(re.findall(r"tcgen05\.(\w+)\.cta_group::(\d)", program.binary.ptx))
    assert words == {(name, "2") for name in ("mma", "alloc", "dealloc", "relinquish_alloc_permit", "commit")}
    assert program.binary.frame_bytes == 0


def test_nan_in_a_value_that_half_of_a_pair_does_not_see_stays_out_of_its_rows() -> None:
    attention = paired(CAUSAL)
    inputs = drawn(attention, Shape(1, 1, 1, 300, 300))
    clean = attention(inputs.q, inputs.k, inputs.v)
    for column in (3, 40):  # in the half of either CTA
        v = inputs.v.clone()
        v[0, 200, 0, column] = float("nan")
        out = attention(inputs.q, inputs.k, v)
        assert torch.equal(out[0, :200], clean[0, :200])
        assert torch.isnan(out[0, 200:, 0, column]).all()
        assert torch.isfinite(out[0, 200:, 0, column + 1]).all()


def test_pairs_are_refused_where_there_are_none() -> None:
    with pytest.raises(ArgumentError, match="for sm100, not for sm90"):
        attnspec.build(PLAIN, target="sm90", ctas=2)
    with pytest.raises(TargetError, match="sm90 has none that two can share"):
        stages.draw(stages.analyse(stages.read(PLAIN)), target="sm90", ctas=2)


def test_graphs_of_a_pair_and_of_one_cta_are_found_apart() -> None:
    assert attnspec.build(PLAIN, ctas=2).handle != attnspec.build(PLAIN).handle


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [([63, 65, 127, 129, 600], [63, 65, 127, 129, 70]), ([0, 300, 0, 5], [7, 417, 0, 0])])
def test_packed_sequences_are_right(lengths: tuple[list[int], list[int]]) -> None:
    attention, (rows, keys) = paired(PACKED), lengths
    found = draw_inputs(attention.spec, Shape(1, 2, 1, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    inputs = Inputs(found.q, found.k, found.v, {}, found.dout, found.dlse, ends)
    assert_right(attention, inputs)
    assert_same_bits_for_every_timing(attention, inputs, 4)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["8", "16", "40", "72", "80", "96", "112", "128, 64", "192, 128"])
def test_head_dimensions_are_right(dims: str) -> None:
    attention = paired(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n")
    assert_right(attention, drawn(attention, Shape(1, 2, 1, 300, 417)))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_right_and_the_same_for_every_timing(variant: str) -> None:
    attention = paired(str(path_of(variant)), **SMALL.get(variant, {}))
    many_heads = (attention.spec.group or 1) > MANY_HEADS
    inputs = drawn(attention, Shape(1, 1, 1, 130, 200) if many_heads else Shape(1, 2, 1, 300, 417))
    assert_right(attention, inputs)
    assert_same_bits_for_every_timing(attention, inputs, SEEDS)
