"""The forward of one query tile and two key tiles a step, run in the emulator against the float64 oracle."""

from functools import cache
from typing import Any

import pytest
import torch
from attnspec.backends.sm100.backend import emit
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import compare, judge
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape, starts
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from attnspec.errors import ArgumentError, TargetError
from tests.golden_text import check_golden
from tests.small_constants import SMALL, VARIANTS, path_of

CAUSAL = "attention causal\nhead_dim 128\nmask = kv <= qpos\n"
PLAIN = "attention plain\nhead_dim 128\n"
CAPPED = "attention capped\nhead_dim 64\nscore = softcap(score, 20.0)\nmask = kv <= qpos and kv > qpos - 200\n"
SINK = "attention sunk\nhead_dim 64\nlearned sinks: f32[heads]\nmask = kv <= qpos\nsink = sinks[h]\n"
MANY_HEADS = 8  # of a group
SEEDS = 20
TOO_WIDE = {"mla"}  # heads of 192


@cache
def single(text: str, **constants: Any) -> attnspec.Attention:
    return attnspec.build(text, on="emulator", query_tiles=1, **constants)


def drawn(attention: attnspec.Attention, shape: Shape) -> Inputs:
    return draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1)


def program_of(attention: attnspec.Attention) -> EmulatedProgram:
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    return program


def assert_right(attention: attnspec.Attention, inputs: Inputs, seeds: int = 0, parts: int = 1) -> None:
    """Within the oracle's tolerance, and the same bits for every timing."""
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing(**inputs.keywords))
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    call, program = Call(inputs.q, inputs.k, inputs.v, declared, layout, False), program_of(attention)
    first, _ = program.run(call, None, parts)
    rows = judge(attention, inputs, [{"out": first.out, "lse": first.lse}], forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]
    for seed in range(seeds):
        again, _ = program.run(call, seed, parts)
        assert torch.equal(again.out, first.out)
        assert torch.equal(again.lse, first.lse)


@pytest.mark.parametrize("variant", ["dense", "gemma2_local"])
def test_module_is_the_golden_text(variant: str) -> None:
    analysed = stages.analyse(stages.read(path_of(variant)))
    schedule = stages.place(stages.draw(analysed, query_tiles=1), analysed)
    check_golden(f"sm100_forward_one_query_tile_{variant}.txt", emit(analysed, schedule).module("forward").text)


def test_odd_and_even_walks_and_empty_rows_are_right_and_the_same_for_every_timing() -> None:
    """Of 400 rows, the first 100 see no key, and work tiles have 1, 2 and 3 key tiles."""
    attention = single(CAUSAL)
    assert_right(attention, drawn(attention, Shape(1, 1, 1, 400, 300)), 2)
    assert program_of(attention).binary.frame_bytes == 0


def test_rescaled_in_some_steps_and_left_alone_in_others_a_row_is_right_for_every_timing() -> None:
    """Scores that grow from key tile to key tile, and stay within 2^8 of the tile before in every other one."""
    attention = single(CAUSAL)
    inputs = drawn(attention, Shape(1, 1, 1, 300, 1100))
    growth = torch.tensor([1, 1, 4, 4, 9, 9, 9, 16, 16]).repeat_interleave(128)[:1100, None, None]
    assert_right(attention, Inputs(inputs.q, inputs.k * growth.to(inputs.k.dtype), inputs.v, {}, inputs.dout, inputs.dlse, {}), 3)


def test_walks_over_parts_of_the_keys_by_rows_of_several_heads_are_right() -> None:
    """Four heads of a group side by side; three parts of 6 key tiles have 2 each, four have 1 and 2."""
    attention = single(SINK)
    inputs = drawn(attention, Shape(1, 4, 1, 3, 700))
    for parts in (3, 4):
        assert_right(attention, inputs, parts=parts)


@pytest.mark.slow
def test_infinity_in_the_last_value_of_an_odd_walk_stays_what_it_is() -> None:
    """No tile of nothing is multiplied: 0 times infinity would be NaN."""
    attention = single(PLAIN)
    inputs = drawn(attention, Shape(1, 1, 1, 5, 300))
    v = inputs.v.clone()
    v[0, 299, 0, 3] = float("inf")
    out = attention(inputs.q, inputs.k, v)
    assert torch.isinf(out[0, :, 0, 3]).all()
    assert torch.isfinite(out[0, :, 0, 4:]).all()


@pytest.mark.slow
def test_nan_in_a_value_reaches_the_rows_that_see_it_and_no_others() -> None:
    attention = single(CAUSAL)
    inputs = drawn(attention, Shape(1, 1, 1, 300, 300))
    clean = attention(inputs.q, inputs.k, inputs.v)
    for key in (100, 200, 299):  # in the first key tile of a step, in its second, in an odd last one
        v = inputs.v.clone()
        v[0, key, 0, 3] = float("nan")
        out = attention(inputs.q, inputs.k, v)
        assert torch.equal(out[0, :key], clean[0, :key])
        assert torch.isnan(out[0, key:, 0, 3]).all()
        assert torch.isfinite(out[0, key:, 0, 4]).all()


def test_one_query_tile_is_refused_where_there_is_no_kernel_for_it() -> None:
    with pytest.raises(TargetError, match="query_tiles=1, ctas=2"):
        attnspec.build(PLAIN, query_tiles=1, ctas=2)
    with pytest.raises(ArgumentError, match="for sm100, not for sm90"):
        attnspec.build(PLAIN, target="sm90", query_tiles=1)
    with pytest.raises(ArgumentError, match="wanted 1, 2 or nothing"):
        attnspec.build(PLAIN, query_tiles=3)  # pyright: ignore[reportArgumentType]
    wide = torch.zeros(1, 8, 1, 192, dtype=torch.bfloat16)
    with pytest.raises(TargetError, match=r"`head_dim 192`.*query_tiles=1.* up to 128"):
        attnspec.build("attention wide\nhead_dim 192\n", on="emulator", query_tiles=1)(wide, wide, wide)
    with pytest.raises(TargetError, match=r"`head_dim 256`.*query_tiles=2.* do not fit"):
        attnspec.build("attention wide\nhead_dim 256\n", on="emulator", query_tiles=2)(*[torch.cat([wide] * 2, 3)[..., :256]] * 3)


def test_kernels_of_one_query_tile_and_of_two_are_found_apart() -> None:
    assert attnspec.build(PLAIN, query_tiles=1).handle != attnspec.build(PLAIN).handle


@pytest.mark.slow
def test_gradients_are_those_of_the_usual_backward() -> None:
    """Its output and log-sum-exp are all that the backward takes from a forward."""
    attention = single(CAPPED)
    assert all(row.is_right for row in compare(attention, drawn(attention, Shape(1, 2, 1, 130, 130)), forward_only=False))


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [([63, 65, 127, 129, 600], [63, 65, 127, 129, 70]), ([0, 300, 0, 5], [7, 417, 0, 0])])
def test_packed_sequences_are_right(lengths: tuple[list[int], list[int]]) -> None:
    attention, (rows, keys) = single(CAUSAL.replace("128", "64") + "varlen\n"), lengths
    found = draw_inputs(attention.spec, Shape(1, 2, 1, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    assert_right(attention, Inputs(found.q, found.k, found.v, {}, found.dout, found.dlse, ends), 4)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["8", "16", "40", "72", "80", "96", "112", "128, 64", "64, 128"])
def test_head_dimensions_are_right(dims: str) -> None:
    attention = single(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n")
    assert_right(attention, drawn(attention, Shape(1, 2, 1, 300, 417)), 2)


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in TOO_WIDE])
def test_every_variant_is_right_and_the_same_for_every_timing(variant: str) -> None:
    attention = single(str(path_of(variant)), **SMALL.get(variant, {}))
    many_heads = (attention.spec.group or 1) > MANY_HEADS
    assert_right(attention, drawn(attention, Shape(1, 1, 1, 130, 200) if many_heads else Shape(1, 2, 1, 300, 417)), SEEDS)
