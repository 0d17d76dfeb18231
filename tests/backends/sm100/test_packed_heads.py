"""Work tiles of several heads of a group, on the emulated kernel: which calls have them, and that every row is its own head's."""

import pytest
import torch
from attnspec.emulator.launch import launch
from attnspec.emulator.report import Report
from attnspec.lowering.analysis.packing import packing
from attnspec.lowering.schedule.cut import choose_rows, count_tiles
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, starts
from attnspec.runtime.emulation import emulation
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments

import attnspec
from attnspec import stages
from tests.backends.sm100.build import forward_text

CAUSAL = "attention causal\nhead_dim 64\nmask = kv <= qpos\n"
OF_HEADS = """attention of_heads
head_dim 64
input slopes: f32[heads]
input reach: i32[heads]
learned sinks: f32[heads]
score = score - slopes[h] * abs(kv - qpos) + 0.25 * (h % 3)
mask = kv <= qpos and (kv + h + hkv) % 5 != 0 and q >= 0
sink = sinks[h]
"""
BIASED = "attention biased\nhead_dim 64\ninput bias: f32[2 * 512]\nscore = score + bias[clamp(q - kv + 512, 0, 1023)]\n"
SHAPES = [
    pytest.param(Shape(1, 2, 1, 300, 417), id="two heads", marks=pytest.mark.slow),
    pytest.param(Shape(2, 8, 2, 3, 700), id="a few rows"),
    pytest.param(Shape(1, 7, 1, 9, 130), id="no power of two"),
    pytest.param(Shape(1, 40, 1, 1, 300), id="more heads than a tile has room for", marks=pytest.mark.slow),
    pytest.param(Shape(1, 6, 2, 70, 5), id="empty rows", marks=pytest.mark.slow),
]


def emulated(text: str) -> attnspec.Attention:
    return attnspec.build(text, on="emulator")


def assert_right(attention: attnspec.Attention, inputs: Inputs) -> None:
    rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", [CAUSAL, OF_HEADS, BIASED], ids=["causal", "of heads", "biased"])
def test_rows_of_several_heads_agree_with_the_oracle(text: str, shape: Shape) -> None:
    attention = emulated(text)
    assert_right(attention, draw_inputs(attention.spec, shape))


@pytest.mark.parametrize(("heads", "kv_heads", "rows"), [(8, 2, 3), (6, 2, 100), (16, 1, 20)])
def test_a_head_gives_the_bits_that_it_gives_alone(heads: int, kv_heads: int, rows: int) -> None:
    attention = emulated(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, heads, kv_heads, rows, 300))
    out, lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True)
    for h in range(heads):
        own = h // (heads // kv_heads)
        one = (inputs.q[:, :, h : h + 1], inputs.k[:, :, own : own + 1], inputs.v[:, :, own : own + 1])
        alone, alone_lse = attention(*one, return_lse=True)
        assert torch.equal(out[:, :, h : h + 1], alone)
        assert torch.equal(lse[:, h : h + 1], alone_lse)


@pytest.mark.parametrize("lengths", [([1] * 20, [7] * 20), ([0, 30, 3, 90], [5, 130, 0, 257])], ids=["decode", "mixed"])
def test_packed_sequences_share_tiles_too(lengths: tuple[list[int], list[int]]) -> None:
    attention = emulated(CAUSAL + "varlen\n")
    rows, keys = lengths
    drawn = draw_inputs(attention.spec, Shape(1, 8, 2, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    assert_right(attention, Inputs(drawn.q, drawn.k, drawn.v, {}, drawn.dout, drawn.dlse, ends))


def test_a_value_that_is_not_a_number_reaches_the_rows_of_every_head_that_see_it_and_no_others() -> None:
    attention = emulated(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 8, 1, 5, 200))
    inputs.v[0, 197] = float("nan")
    out = attention(inputs.q, inputs.k, inputs.v)
    assert torch.isfinite(out[0, :2]).all()
    assert torch.isnan(out[0, 2:]).all()


@pytest.mark.slow
def test_bits_are_the_same_for_every_timing() -> None:
    attention = emulated(OF_HEADS)
    inputs = draw_inputs(attention.spec, Shape(2, 8, 2, 11, 300))
    first = attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.tensors, **inputs.keywords)
    for seed in range(8):
        with emulation(seed) as run:
            again = attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.tensors, **inputs.keywords)
        assert not any(report.faults for report in run.reports)
        assert all(torch.equal(left, right) for left, right in zip(first, again, strict=True))


def report_of(shape: Shape) -> Report:
    """A launch on as many multiprocessors as there are work tiles."""
    attention = emulated(CAUSAL)
    inputs = draw_inputs(attention.spec, shape)
    call = Call(inputs.q, inputs.k, inputs.v, (), check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing()), False)
    binary = stages.kernel(attention, "sm100").program.binary  # pyright: ignore[reportAttributeAccessIssue]
    return launch(binary.compiled, *forward_arguments(call, *empty_results(call, 64)), 1 << 20).check()


@pytest.mark.parametrize(
    ("shape", "rows", "tiles"),
    [
        (Shape(1, 8, 1, 1, 40), 32, 1),
        (Shape(1, 8, 2, 1, 40), 64, 2),
        (Shape(2, 40, 1, 1, 40), 8, 4),
        (Shape(1, 4, 1, 130, 40), 64, 3),
        (Shape(1, 2, 1, 300, 40), 128, 3),
        (Shape(1, 2, 1, 512, 40), 256, 4),
        (Shape(1, 2, 2, 5, 40), 256, 2),
    ],
)
def test_tiles_are_those_that_explain_speaks_of(shape: Shape, rows: int, tiles: int) -> None:
    group = shape.heads // shape.kv_heads
    assert choose_rows(shape.len_q, group, 256) == rows
    assert count_tiles(shape.batch, shape.kv_heads, group, shape.len_q, rows, 256) == tiles
    assert report_of(shape).launches[0].grid[0] == tiles


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ("group 1\n", "nothing to share"),
        ("input reach: i32[heads]\nmask = kv <= q - reach[h]\n", "keys that a tile visits"),
        ("input bias: f32[heads, len_kv]\nscore = score + bias[h, kv]\n", "shared memory"),
    ],
)
def test_heads_that_tell_tiles_apart_do_not_share_them(statements: str, words: str) -> None:
    text = f"attention apart\nhead_dim 64\n{statements}"
    assert words in packing(emulated(text).analysed).reason
    assert "row_bits" not in forward_text(text)
