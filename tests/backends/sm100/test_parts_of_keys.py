"""Work tiles that share out the keys of the same rows, and the kernel that puts their results together, in the emulator."""

import pickle
from typing import cast

import pytest
import torch
from attnspec.lowering.schedule.cut import choose_parts
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call, Forward
from attnspec.runtime.compare import judge
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, starts
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.emulation import emulation

import attnspec
from attnspec import stages
from attnspec.errors import ArgumentError, TargetError
from attnspec.operators.handles import attention_of

CAUSAL = "attention causal\nhead_dim 64\nmask = kv <= qpos\n"
WINDOW = """attention window
head_dim 128
learned sinks: f32[heads]
mask = kv <= qpos and kv > qpos - 300
sink = sinks[h]
"""
CAPPED = "attention capped\nhead_dim 64, 72\nscore = softcap(score, 20.0)\n"
DECODE = Shape(1, 8, 2, 1, 700)
SHAPES = [
    pytest.param(DECODE, id="decode"),
    pytest.param(Shape(2, 2, 2, 130, 300), id="many rows", marks=pytest.mark.slow),
    pytest.param(Shape(1, 2, 1, 5, 2), id="fewer keys than parts", marks=pytest.mark.slow),
]


def emulated(text: str) -> attnspec.Attention:
    return attnspec.build(text, on="emulator")


def call_of(attention: attnspec.Attention, inputs: Inputs) -> tuple[EmulatedProgram, Call]:
    program = stages.kernel(attention, "sm100").program
    placing = Placing(**inputs.keywords)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, placing)
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    return cast(EmulatedProgram, program), Call(inputs.q, inputs.k, inputs.v, declared, layout, False)


def in_parts(attention: attnspec.Attention, inputs: Inputs, parts: int, seed: int | None = None) -> Forward:
    program, call = call_of(attention, inputs)
    return program.run(call, seed, parts)[0]


def is_right(attention: attnspec.Attention, inputs: Inputs, result: Forward) -> bool:
    rows = judge(attention, inputs, [{"out": result.out, "lse": result.lse}], forward_only=True)
    return all(row.is_right for row in rows)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", [CAUSAL, WINDOW, CAPPED], ids=["causal", "window with sinks", "bounded"])
def test_any_number_of_parts_agrees_with_the_oracle(text: str, shape: Shape) -> None:
    attention = emulated(text)
    inputs = draw_inputs(attention.spec, shape)
    for parts in (3, 11):
        assert is_right(attention, inputs, in_parts(attention, inputs, parts))


def test_packed_sequences_are_shared_out_too() -> None:
    attention = emulated(CAUSAL + "varlen\n")
    rows, keys = [1, 1, 0, 3, 1], [300, 7, 0, 520, 0]
    drawn = draw_inputs(attention.spec, Shape(1, 4, 2, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    inputs = Inputs(drawn.q, drawn.k, drawn.v, {}, drawn.dout, drawn.dlse, ends)
    assert is_right(attention, inputs, in_parts(attention, inputs, 3))


def test_scores_of_any_size_are_weighed_as_exactly_as_in_one_piece() -> None:
    """At scores of 60000 an f32 log-sum-exp is known to 2^-8; parts hand on maximum and sum."""
    attention = emulated("attention far\nhead_dim 16\ndtype fp16\nscale 1.0\n")
    q, k = torch.zeros(1, 1, 1, 16).half(), torch.zeros(1, 400, 1, 16).half()
    v = torch.zeros_like(k)
    q[..., 0], q[..., 1] = 200.0, 1.0
    k[..., 0], v[0, :, 0, 0] = 300.0, torch.arange(400).half()
    k[0, :, 0, 1] = torch.linspace(-2, 2, 400).half()
    inputs = Inputs(q, k, v, {}, torch.zeros_like(q), torch.zeros(1, 1, 1))
    whole = in_parts(attention, inputs, 1)
    for parts in (2, 4):
        shared = in_parts(attention, inputs, parts)
        assert torch.allclose(shared.lse, whole.lse, rtol=2.0**-22)
        assert torch.allclose(shared.out, whole.out, rtol=2.0**-10)


def test_a_sink_joins_once_and_alone_where_nothing_is_seen() -> None:
    attention = emulated("attention sunk\nhead_dim 16\ndtype fp16\nlearned sinks: f32[heads]\nmask = kv < q\nsink = sinks[h]\n")
    q, v = torch.zeros(1, 2, 2, 16).half(), torch.ones(1, 300, 2, 16).half()
    inputs = Inputs(q, torch.zeros_like(v), v, {"sinks": torch.tensor([1.5, -2.0])}, torch.zeros_like(q), torch.zeros(1, 2, 2))
    for parts in (2, 3):
        result = in_parts(attention, inputs, parts)
        assert torch.allclose(result.lse[0, :, 0], torch.tensor([1.5, -2.0]), rtol=2.0**-22)
        assert torch.allclose(result.lse[0, :, 1], torch.log(1 + torch.exp(torch.tensor([1.5, -2.0]))), rtol=2.0**-20)
        assert not result.out[0, 0].any()


@pytest.mark.slow
def test_bits_are_the_same_for_every_timing_of_one_number_of_parts() -> None:
    attention = emulated(WINDOW)
    inputs = draw_inputs(attention.spec, Shape(1, 4, 1, 9, 700))
    first = in_parts(attention, inputs, 4)
    for seed in range(8):
        again = in_parts(attention, inputs, 4, seed)
        assert torch.equal(again.out, first.out)
        assert torch.equal(again.lse, first.lse)


def test_what_is_not_a_number_reaches_the_rows_that_see_it_and_no_others() -> None:
    attention = emulated(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 4, 1, 5, 400))
    inputs.v[0, 397] = float("nan")
    result = in_parts(attention, inputs, 3)
    assert torch.isfinite(result.out[0, :2]).all()
    assert torch.isnan(result.out[0, 2:]).all()
    inputs.v[0, 397], inputs.k[0, 398] = 0.0, float("nan")
    result = in_parts(attention, inputs, 3)
    assert torch.isfinite(result.out[0, :3]).all()
    assert torch.isnan(result.out[0, 3:]).all()
    assert torch.isnan(result.lse[..., 3:]).all()


def test_keys_are_shared_out_to_as_many_work_tiles_and_merged_by_a_second_kernel() -> None:
    attention = emulated(CAUSAL)
    inputs = draw_inputs(attention.spec, DECODE)
    program, call = call_of(attention, inputs)
    alone, shared = (program.run(call, None, parts)[1] for parts in (1, 2))
    assert alone is not None and shared is not None
    assert [len(report.launches) for report in (alone, shared)] == [1, 2]
    assert shared.launches[0].grid[0] == 2 * alone.launches[0].grid[0]


@pytest.mark.parametrize(("splits", "parts"), [(1, 1), (3, 3), (None, 2)])
def test_a_variant_is_built_for_a_number_of_parts_or_for_as_many_as_keep_the_processors_at_work(
    splits: int | None, parts: int
) -> None:
    """The pretended GPU has 4 processors and the call 2 work tiles, one for each key head."""
    attention = attnspec.build(CAUSAL, on="emulator", splits=splits)
    inputs = draw_inputs(attention.spec, DECODE)
    with emulation(None) as run:
        result = attention(inputs.q, inputs.k, inputs.v, return_lse=True)
    assert run.reports[0].launches[0].grid[0] == min(4, 2 * parts)
    assert len(run.reports[0].launches) == (1 if parts == 1 else 2)
    assert is_right(attention, inputs, Forward(*result, ()))


@pytest.mark.parametrize(
    ("tiles", "steps", "parts"), [(1, 64, 16), (8, 64, 16), (40, 64, 3), (74, 1000, 2), (148, 1000, 1), (0, 8, 2), (1, 1, 1)]
)
def test_parts_keep_processors_at_work_and_have_a_few_key_tiles_each(tiles: int, steps: int, parts: int) -> None:
    assert choose_parts(tiles, steps, 148) == parts


@pytest.mark.parametrize("splits", [0, -1, True, 1.5, "2", 257])
def test_a_number_of_parts_that_no_kernel_takes_is_an_error(splits: object) -> None:
    with pytest.raises(ArgumentError, match="splits"):
        attnspec.build(CAUSAL, splits=splits)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("target", ["sm90", "reference"])
def test_a_target_that_cuts_no_keys_into_parts_says_so(target: str) -> None:
    with pytest.raises(ArgumentError, match=f"splits: parts of the keys are for sm100, not for {target}"):
        attnspec.build(CAUSAL, target=target, splits=2)


def test_a_device_that_cuts_no_keys_into_parts_says_so() -> None:
    with pytest.raises(TargetError, match="splits=2: parts of the keys are for sm100, sm90 takes all keys of a row at once"):
        stages.make_kernel(attnspec.build(CAUSAL, on="emulator", splits=2), "sm90")


def test_a_variant_for_parts_survives_a_copy_and_is_found_again_by_its_handle() -> None:
    attention = attnspec.build(CAUSAL, on="emulator", splits=None)
    assert pickle.loads(pickle.dumps(attention)).splits is None
    assert attention_of(attnspec.build(CAUSAL, splits=7).handle).splits == 7
