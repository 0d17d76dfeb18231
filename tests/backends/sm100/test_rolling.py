"""Tiles of every length one after another in one CTA, where the tensor role rolls: in the emulator against the float64 oracle."""

from functools import cache
from typing import Any

import pytest
import torch
from attnspec.runtime import emulated_program
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape, starts
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.emulation import emulation

import attnspec
from attnspec import stages
from tests.small_constants import SMALL, VARIANTS, path_of

BOUNDED = "score = 20.0 * tanh(score / 20.0)\n"
# Rows and keys of packed sequences, a work tile each: of no key tile, of one, of odd and even numbers of them.
ROWS = [130, 1, 200, 5, 256, 3, 7, 140, 1, 9]
KEYS = [417, 0, 100, 128, 0, 0, 300, 129, 1, 0]
MANY_HEADS = 8  # a group; variants with more take shorter sequences


def text(head_dim: str, more: str = "") -> str:
    return f"attention plain\nhead_dim {head_dim}\n{more}"


@cache
def built(spec: str, **how: Any) -> attnspec.Attention:
    return attnspec.build(spec, on="emulator", **how)


def rolls(attention: attnspec.Attention) -> bool:
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    return "mma_rolling" in program.emitted.module("forward").text


def packed(attention: attnspec.Attention, rows: list[int], keys: list[int]) -> Inputs:
    drawn = draw_inputs(attention.spec, Shape(1, 1, 1, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    return Inputs(drawn.q, drawn.k, drawn.v, {}, drawn.dout, drawn.dlse, ends)


def assert_right(attention: attnspec.Attention, inputs: Inputs, seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one CTA, which has all tiles."""
    monkeypatch.setattr(emulated_program, "CTAS", 1)
    with emulation(seed):
        rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


@pytest.mark.parametrize("spec", [text("64", BOUNDED), pytest.param(text("128"), marks=pytest.mark.slow)])
def test_tiles_of_every_length_follow_one_another(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = built(spec + "varlen\n")
    assert rolls(attention)
    for seed, (rows, keys) in enumerate([(ROWS, KEYS), (ROWS[::-1], KEYS[::-1])]):
        assert_right(attention, packed(attention, rows, keys), seed, monkeypatch)


def test_first_tiles_of_a_cta_have_one_step_each_where_the_ring_has_two_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = built(text("192, 128", "varlen\n"))
    assert rolls(attention)
    assert_right(attention, packed(attention, [1, 200, 3, 5], [1, 100, 0, 128]), 0, monkeypatch)


@pytest.mark.slow
def test_tile_after_which_the_others_are_met_is_finished_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinity in a masked value: all roles meet when the tiles are done, and some tiles are done again."""
    attention = built("attention causal\nhead_dim 64\nmask = kv <= q\n")
    assert rolls(attention)
    for place in (5, 200, 399):
        inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 400, 400))
        inputs.v[0, place, 0, 3] = float("inf")
        assert_right(attention, inputs, place, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"ctas": 2}, {"splits": 3}, {"query_tiles": 1}], ids=str)
@pytest.mark.parametrize("more", ["", BOUNDED])
@pytest.mark.parametrize("head_dim", ["32", "64", "80", "128", "192, 128"])
def test_tiles_of_every_length_follow_one_another_in_every_form(
    head_dim: str, more: str, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if head_dim == "192, 128" and "query_tiles" in how:
        pytest.skip("too wide for it")
    attention = built(text(head_dim, more + "varlen\n"), **how)
    assert rolls(attention) == ("query_tiles" not in how)
    for seed in range(3):
        assert_right(attention, packed(attention, ROWS, KEYS), seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_several_tiles_of_a_cta_agree_with_the_oracle(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = built(str(path_of(variant)), **SMALL.get(variant, {}))
    many_heads = (attention.spec.group or 1) > MANY_HEADS
    shape = fit_shape(attention.spec, Shape(1, 1, 1, 130, 200) if many_heads else Shape(1, 2, 1, 300, 417))
    for seed in range(3):
        assert_right(attention, draw_inputs(attention.spec, shape, seed), seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [text("64", BOUNDED), text("64"), text("128")])
def test_bits_are_the_same_for_every_timing_and_number_of_processors(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = built(spec + "varlen\n")
    inputs = packed(attention, ROWS, KEYS)
    found = []
    for seed in range(20):
        monkeypatch.setattr(emulated_program, "CTAS", 1 + seed % 4)
        with emulation(seed):
            found.append(attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.keywords))
    assert all(torch.equal(one, first) for pair in found[1:] for one, first in zip(pair, found[0], strict=True))
