"""Tensors with an element for each query and key: TMA brings tiles of them, in the emulator and by what threads load."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attnspec.backends.sm100.backend import emit
from attnspec.lowering.dataflow.tensor_tiles import packing_of, tiled_tensors, tiles_of
from attnspec.runtime import emulated_program
from attnspec.runtime.assemble import assemble
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs
from attnspec.runtime.emulation import emulation
from attnspec.runtime.kernel_arguments import as_boxed
from torch import Tensor

import attnspec
from attnspec import stages

HEAD = "attention tiled\nhead_dim {}\n"
BIAS = "learned bias: f32[heads, len_q, len_kv]\nscore = score + bias[h, q, kv]\n"
HALF = "input bias: bf16[batch, kv_heads, len_q, len_kv]\nscore = score + bias[b, hkv, q, kv]\nmask = causal\n"
CAPPED = "dtype fp16\ninput bias: fp16[kv_heads, len_q, len_kv]\nscore = softcap(score + bias[hkv, q, kv], 30.0)\n"
BOUNDED = "input bias: f32[heads, len_q, len_kv]\nscore = softcap(score + bias[h, q, kv], 30.0)\nmask = causal\n"
HELD = "input gain: f32[len_q, len_kv]\nscore = softcap(score, 30.0)\nmask = gain[q, kv] > 0.0\n"
RANKED = "input rank: i32[batch, len_q, len_kv] in 0..9\nmask = rank[b, q, kv] < 7\n"
SHOWN = "input shown: bool[batch, len_q, len_kv]\nmask = shown[b, q, kv]\n"
CLASSES = "learned bias: f32[heads, 8]\ninput kinds: i32[len_q, len_kv] in 0..7\nscore = score + bias[h, kinds[q, kv]]\n"
POSITIVE = "input gain: f32[heads, len_q, len_kv]\nmask = gain[h, q, kv] > 0.0\n"
TWO = "input shown: bool[len_q, len_kv]\ninput a: bf16[heads, len_q, len_kv]\nscore = score + a[h, q, kv]\nmask = shown[q, kv]\n"
TWO_WORDS = (
    "input gain: f32[len_q, len_kv]\ninput a: f32[heads, len_q, len_kv]\nscore = score + a[h, q, kv]\nmask = gain[q, kv] > 0.0\n"
)
WINDOW = "input bias: f32[heads, len_q, len_kv]\nscore = score + bias[h, q, kv]\nmask = causal and kv > qpos - 200\n"
KEYED = "input bias: bf16[len_q, len_kv]\ninput gain: f32[len_kv]\nscore = score + bias[q, kv] * gain[kv]\nmask = causal\n"
FAR = (
    "input bias: f32[heads, len_q, len_kv]\nlearned table: f32[heads, 257]\n"
    "score = score + bias[h, q, kv] + table[h, clamp(kv - q, -128, 128) + 128]\nmask = causal\n"
)
PAPERS = (
    "input bias: f32[heads, len_q, len_kv]\ninput of_q: i32[batch, len_q]\ninput of_kv: i32[batch, len_kv]\n"
    "score = score + bias[h, q, kv]\nmask = of_q[b, q] == of_kv[b, kv]\n"
)
slow = pytest.mark.slow


def built(text: str, dims: str = "64", **options: Any) -> attnspec.Attention:
    return attnspec.build(HEAD.format(dims) + text, on="emulator", target="sm100", **options)


def assert_right(attention: attnspec.Attention, inputs: Inputs) -> None:
    rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def tiled(text: str, dims: str = "64", **choices: Any) -> tuple[str, ...]:
    """Names of the tensors of which a forward's tiles are brought."""
    analysed = stages.analyse(stages.read(HEAD.format(dims) + text))
    return tuple(tensor.name for tensor in tiled_tensors(analysed.spec, stages.draw(analysed, "forward", "sm100", **choices)))


@pytest.mark.parametrize(
    ("text", "dims", "expected"),
    [
        (BIAS, "64", ("bias",)),
        (BIAS, "128", ("bias",)),
        (HALF, "128", ("bias",)),
        (TWO, "64", ("a", "shown")),
        (TWO, "128", ("a", "shown")),
        (TWO_WORDS, "64", ("a", "gain")),
        (TWO_WORDS, "128", ("a",)),  # two slots of 64 KB find no room beside its keys
        (CLASSES, "64", ("kinds",)),
        (BIAS, "256", ("bias",)),  # one query tile
        (SHOWN, "192, 128", ("shown",)),
        (HALF, "192, 128", ()),  # nor does one of 32 KB here
        ("input a: f32[len_kv, len_q]\nscore = score + a[kv, q]\n", "64", ()),  # rows are not the queries'
        ("input a: f32[len_q, len_kv]\nscore = score + a[q, min(kv, 5)]\n", "64", ()),
        ("input a: f32[len_kv, len_q, len_kv]\nscore = score + a[kv, q, kv]\n", "64", ()),
        ("input a: f32[heads, len_q]\nscore = score + a[h, q]\n", "64", ()),
    ],
)
def test_tiles_are_brought_of_tensors_whose_last_axes_are_the_query_and_the_key(
    text: str, dims: str, expected: tuple[str, ...]
) -> None:
    assert tiled(text, dims) == expected


def test_pairs_of_ctas_and_one_query_tile_have_no_such_tiles_and_heads_are_not_packed_beside_them() -> None:
    assert tiled(BIAS, ctas=2) == tiled(BIAS, query_tiles=1) == ()
    analysed = stages.analyse(stages.read(HEAD.format("64") + HALF))
    found = packing_of(analysed, stages.draw(analysed, "forward", "sm100"))
    assert not found.is_allowed and "bias" in found.reason


@pytest.mark.parametrize(
    ("text", "dims", "shape"),
    [
        (HALF, "128", Shape(2, 4, 2, 140, 270)),
        (SHOWN, "64", Shape(2, 2, 1, 300, 130)),
        (BOUNDED, "64", Shape(1, 1, 1, 140, 260)),  # its scores are finished with their exponentials
        pytest.param(BIAS, "64", Shape(1, 2, 2, 150, 301), marks=slow),
        (BIAS, "128", Shape(1, 1, 1, 150, 301)),
        pytest.param(BIAS, "128", Shape(1, 1, 1, 20, 100), marks=slow),
        pytest.param(BIAS, "128", Shape(1, 1, 1, 256, 900), marks=slow),
        pytest.param(BIAS, "96", Shape(1, 2, 1, 140, 250), marks=slow),
        pytest.param(BIAS, "80", Shape(2, 2, 2, 300, 390), marks=slow),
        pytest.param(BIAS, "72, 40", Shape(1, 2, 2, 130, 270), marks=slow),
        pytest.param(BIAS, "40, 128", Shape(1, 1, 1, 300, 131), marks=slow),
        pytest.param(BIAS, "128", Shape(1, 1, 1, 3, 0), marks=slow),
        pytest.param(CLASSES, "128", Shape(1, 2, 2, 150, 200), marks=slow),
        pytest.param(POSITIVE, "128", Shape(1, 2, 2, 270, 333), marks=slow),
        pytest.param(POSITIVE, "96", Shape(1, 1, 1, 20, 100), marks=slow),
        pytest.param(RANKED, "128", Shape(2, 2, 2, 140, 390), marks=slow),
        pytest.param(RANKED, "80", Shape(1, 1, 1, 260, 200), marks=slow),
        pytest.param(BOUNDED, "128", Shape(1, 1, 1, 140, 390), marks=slow),
        pytest.param(HELD, "96", Shape(1, 1, 1, 140, 390), marks=slow),
        pytest.param(WINDOW, "128", Shape(1, 2, 1, 300, 417), marks=slow),
        pytest.param(TWO, "128", Shape(1, 2, 2, 130, 257), marks=slow),
        pytest.param(TWO_WORDS, "64", Shape(1, 2, 2, 140, 390), marks=slow),
        pytest.param(SHOWN, "192, 128", Shape(2, 2, 1, 300, 260), marks=slow),
        pytest.param(CAPPED, "64", Shape(1, 4, 2, 140, 260), marks=slow),
        pytest.param(CLASSES, "64", Shape(1, 2, 2, 150, 200), marks=slow),
        pytest.param(POSITIVE, "64", Shape(1, 2, 2, 270, 333), marks=slow),
        pytest.param(TWO, "64", Shape(1, 2, 2, 130, 257), marks=slow),
        pytest.param(HALF, "256", Shape(1, 2, 1, 150, 140), marks=slow),
        pytest.param(SHOWN, "256", Shape(1, 1, 1, 20, 100), marks=slow),
        pytest.param(HALF, "64", Shape(1, 2, 2, 5, 0), marks=slow),
        pytest.param(SHOWN, "64", Shape(2, 2, 1, 3, 2), marks=slow),
        pytest.param(KEYED, "72, 40", Shape(2, 2, 2, 270, 140), marks=slow),
        pytest.param(KEYED.replace("bf16", "f32"), "128", Shape(2, 2, 2, 270, 140), marks=slow),  # whose gains threads load
        pytest.param(FAR, "96", Shape(1, 2, 2, 150, 301), marks=slow),
        pytest.param(PAPERS, "128", Shape(2, 2, 1, 140, 260), marks=slow),
    ],
)
def test_elements_are_right_and_the_same_for_every_timing(text: str, dims: str, shape: Shape) -> None:
    attention = built(text, dims)
    inputs = draw_inputs(attention.spec, shape, 0)
    assert_right(attention, inputs)

    def results(seed: int | None) -> tuple[Tensor, Tensor]:
        with emulation(seed) as run:
            found = attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.tensors)
        assert not any(report.faults for report in run.reports)
        return found

    first = results(None)
    for seed in range(4):
        assert all(map(torch.equal, results(seed), first)), seed


@pytest.mark.parametrize(
    "layout",
    [
        lambda a: a.transpose(-1, -2).contiguous().transpose(-1, -2),
        lambda a: a[:, :, :1].expand_as(a),
        lambda a: torch.cat([a, a], -1)[..., 3 : 3 + a.shape[-1]],
        lambda a: a[:1].expand_as(a),
    ],
    ids=["columns", "one row for all", "starts anywhere", "one batch for all"],
)
def test_tensors_of_any_layout_are_taken(layout: Any) -> None:
    tensor = torch.randn(2, 2, 40, 150).to(torch.bfloat16)
    boxed = as_boxed(layout(tensor))
    assert torch.equal(boxed, layout(tensor))
    assert boxed.stride(-1) == 1 and not any(stride % 8 for stride in boxed.stride()[:-1]) and boxed.data_ptr() % 16 == 0


def test_a_tensor_that_tma_can_take_as_it_is_is_not_copied() -> None:
    tensor = torch.randn(2, 3, 40, 152)
    assert as_boxed(tensor[:, 1:, 5:]).data_ptr() == tensor[:, 1:, 5:].data_ptr()


@slow
@pytest.mark.parametrize(("text", "dims"), [(HALF, "64"), (WINDOW, "128")])
def test_elements_that_start_anywhere_a_part_of_the_queries_and_parts_of_the_keys_are_right(text: str, dims: str) -> None:
    attention = built(text, dims)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 2, 150, 270), 0)
    moved = torch.cat([inputs.tensors["bias"]] * 2, -1)[..., 270:]
    assert_right(attention, replace(inputs, tensors={"bias": moved}))
    assert_right(built(text, dims, splits=2), inputs)
    whole, lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True, bias=moved)
    part = {"q_offset": 37, "len_q": 150, "len_kv": 270, "bias": moved}
    out, lse_of_part = attention(inputs.q[:, 37:], inputs.k, inputs.v, return_lse=True, **part)
    # Rows lie elsewhere in their tiles, whose sums go another way: bf16 outputs of f32 sums that differ by roundings.
    torch.testing.assert_close(out.float(), whole[:, 37:].float(), rtol=2**-7, atol=2**-9)
    torch.testing.assert_close(lse_of_part, lse[:, :, 37:], rtol=1e-5, atol=1e-5)


@slow
@pytest.mark.parametrize(("text", "dims"), [(BIAS + "mask = causal\n", "128"), (WINDOW, "96"), (SHOWN, "192, 128")])
def test_tiles_of_every_length_follow_one_another_in_one_slot(text: str, dims: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one CTA: rows beyond the keys see none, so that work tiles have no step, one, two or more."""
    monkeypatch.setattr(emulated_program, "CTAS", 1)
    attention = built(text, dims)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 2, 900, 420), 0)
    for seed in range(3):
        with emulation(seed):
            assert_right(attention, inputs)


@slow
def test_an_infinity_in_a_masked_value_is_kept_out_beside_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """All roles meet when the tiles are done, and some tiles are done again."""
    monkeypatch.setattr(emulated_program, "CTAS", 1)
    attention = built(WINDOW, "128")
    for place in (5, 399):
        inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 400, 400), place)
        inputs.v[0, place, 0, 3] = float("inf")
        with emulation(place):
            assert_right(attention, inputs)


@slow
@pytest.mark.parametrize(
    ("text", "dims"),
    [
        (BIAS, "128"),
        (WINDOW, "80"),
        (BOUNDED, "128"),
        (CLASSES, "128"),
        (POSITIVE, "128"),
        (HELD, "96"),
        (TWO, "128"),
        (TWO_WORDS, "64"),
        (SHOWN, "192, 128"),
        (FAR, "128"),
        (PAPERS, "128"),
    ],
)
def test_kernels_with_one_slot_for_both_query_tiles_spill_nothing(text: str, dims: str, tmp_path: Path) -> None:
    analysed = stages.analyse(stages.read(HEAD.format(dims) + text))
    graph = stages.draw(analysed, "forward", "sm100")
    assert tiles_of(graph).in_turn
    assert assemble(emit(analysed, stages.place(graph, analysed, "sm100")), tmp_path).frame_bytes == 0
