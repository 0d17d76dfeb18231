"""Sums along diagonals, staged by all warps and added up by one: gradients of tensors that are read by distance."""

from collections import Counter

import pytest
import torch
from attnspec.backends.cute.kernel.blocks.strips import KEYS, WARP, WORD_BYTES, Strips
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from tests.backends.in_one_order import gradients
from tests.backends.sm90.test_backward import assert_right

TABLE = "learned bias: f32[heads, 2 * {0} + 1]\nscore = score + bias[h, clamp(q - kv, -{0}, {0}) + {0}]\n"
# Key tiles skip query tiles between those that they meet.
SKIPPING = "const side = 128\nmask = kv // side == q // side or (kv // side == 0 and q // side == 2)\n"
TWO = (
    "learned near: f32[heads, 33]\nlearned far: f32[len_q + len_kv - 1]\n"
    "score = score + 0.5 * near[h, clamp(q - kv, -16, 16) + 16] * far[q - kv + len_kv - 1]\n"
)
BUCKETS = "learned bias: f32[heads, 8]\nscore = score + bias[h, min(abs(q - kv) // 16, 7)]\n"


def built(dims: str, text: str) -> attnspec.Attention:
    return attnspec.build(f"attention strips\nhead_dim {dims}\n{text}", target="sm90", on="emulator")


@pytest.mark.parametrize("strips", [Strips(64, 64, 128), Strips(96, 96, 128), Strips(32, 64, 128)])
def test_every_number_of_every_strip_is_added_once_to_its_distance(strips: Strips) -> None:
    strip_of = {
        strips.offset(0, warp, part): (warp, part) for warp in range(strips.tile_kv // KEYS) for part in range(strips.parts)
    }
    found: Counter[tuple[int, int, int]] = Counter()
    for at in range(strips.carried + strips.ended):
        for offset, first in strips.numbers(at):
            warp, part = strip_of[offset]
            for lane in range(WARP):
                number = first + lane
                if 0 <= number < strips.words:
                    found[warp, part, number] += 1
                    own = number - KEYS + part * strips.queries - warp * KEYS  # query - key, from the step's first of both
                    assert own == at * WARP + lane - strips.tile_kv
    everything = {(*strip, number) for strip in strip_of.values() for number in range(strips.words)}
    assert set(found) == everything
    assert set(found.values()) == {1}
    assert strips.read_bytes == len(everything) * WORD_BYTES


def test_key_tiles_that_skip_query_tiles_carry_nothing_over_them() -> None:
    assert_right(built("64", TABLE.format(200) + SKIPPING), Shape(1, 2, 1, 390, 270))


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["32", "64", "96", "128", "64, 128", "128, 64"])
@pytest.mark.parametrize("text", [TABLE.format(50) + SKIPPING, TWO, BUCKETS + "mask = causal\n"], ids=["skips", "two", "buckets"])
def test_gradients_agree_for_every_width(dims: str, text: str) -> None:
    for shape in (Shape(1, 2, 1, 200, 300), Shape(1, 1, 1, 1, 130), Shape(1, 2, 2, 130, 5)):
        assert_right(built(dims, text), shape)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "128"])
def test_bits_are_the_same_for_every_timing_and_number_of_processors(dims: str) -> None:
    attention = built(dims, TWO)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 2, 150, 260), 0)
    first, *others = (gradients(attention, "sm90", inputs, seed, count) for seed, count in ((None, 1), (1, 2), (2, 3), (5, 1)))
    assert all(torch.equal(one, two) for other in others for one, two in zip(first, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "128"])
def test_a_step_adds_an_element_a_query_and_a_clamped_one_a_single_one(dims: str) -> None:
    """Warp instructions, by the difference of two lengths: two of 32 distances each, whatever the number of keys of a tile."""
    assert _adds(dims, TABLE.format(1000), 64 * 6) - _adds(dims, TABLE.format(1000), 64 * 4) == 2 * 2
    assert _adds(dims, TABLE.format(1), 64 * 8) - _adds(dims, TABLE.format(1), 64 * 6) == 2


def _adds(dims: str, text: str, queries: int) -> int:
    attention = built(dims, text)
    program = stages.kernel(attention, "sm90").program
    assert isinstance(program, EmulatedProgram)
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, queries, 128), 0)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, True)
    _, report = program.made_backward.run(call, program.forward(call), inputs.dout, inputs.dlse, 1, None)
    assert report is not None
    return sum(found.counts.get("red.global.add.f32", 0) for found in report.launches)
