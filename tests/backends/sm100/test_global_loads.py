"""What the threads of a step read from global memory, counted in the emulator by the difference of two lengths."""

import pytest
import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages

HEAD = "attention counted\nhead_dim {}\n"
pytestmark = pytest.mark.slow  # a kernel each
STEPS = 2  # key tiles between the two lengths
WARPS = 2 * 4  # of the two query tiles
KEYS = 128


def loads(text: str, len_kv: int, dims: str) -> int:
    """Warp instructions that load from global memory, in a call of two query tiles."""
    attention = attnspec.build(HEAD.format(dims) + text, on="emulator")
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 256, len_kv), 0)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, torch.device("cpu"))
    _, report = program.run(Call(inputs.q, inputs.k, inputs.v, declared, layout, False), None)
    assert report is not None
    return sum(count for launched in report.launches for name, count in launched.counts.items() if name.startswith("ld.global"))


def loads_a_step(text: str, dims: str = "64") -> float:
    """Of one warp."""
    return (loads(text, (1 + STEPS) * KEYS, dims) - loads(text, KEYS, dims)) / (STEPS * WARPS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input gate: f32[len_kv]\nscore = score * gate[kv]\n", 1),
        ("learned bias: f32[heads, 257]\nscore = score + bias[h, clamp(kv - q, -128, 128) + 128]\n", 2),
        ("learned bias: f32[len_q + len_kv]\ninput gate: f32[len_kv]\nscore = score * gate[kv] + bias[q - kv + len_kv]\n", 3),
        ("learned slopes: f32[heads]\nscore = score + slopes[h] * (kv - qpos)\n", 0),
        ("input gain: f32[len_q]\nscore = score * gain[q]\n", 0),
        ("input gain: f32[len_q, len_kv]\nscore = score * gain[q, kv]\n", 0),
        ("input gain: f32[len_q, len_kv]\nscore = score * gain[q, kv - kv % 2]\n", KEYS),
    ],
    ids=["key", "distance", "both", "head", "row", "element", "some element"],
)
def test_a_row_loads_a_value_a_key_two_a_distance_no_element_of_a_tile_and_each_other_one(text: str, expected: int) -> None:
    assert loads_a_step(text) == expected


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("learned bias: f32[heads, len_q, len_kv]\nscore = score + bias[h, q, kv]\n", "128"),
        ("learned bias: f32[heads, len_q, len_kv]\nscore = score + bias[h, q, kv]\nmask = causal\n", "80"),
        ("input rank: i32[len_q, len_kv]\nmask = rank[q, kv] > 0\n", "96"),
        ("input gain: f32[batch, len_q, len_kv]\nmask = gain[b, q, kv] > 0.0\n", "128"),
        ("input shown: bool[len_q, len_kv]\nmask = shown[q, kv]\n", "192, 128"),
        (
            "input a: bf16[len_q, len_kv]\ninput gain: bf16[len_q, len_kv]\nscore = score + a[q, kv]\nmask = gain[q, kv] > 0.0\n",
            "128",
        ),
    ],
)
def test_elements_of_a_tile_in_one_slot_for_both_query_tiles_are_not_loaded(text: str, dims: str) -> None:
    assert loads_a_step(text, dims) == 0


def test_a_mask_of_ids_loads_them_in_partial_tiles_alone() -> None:
    ids = "input ids_q: i32[batch, len_q]\ninput ids_kv: i32[batch, len_kv]\n"
    assert loads_a_step(f"{ids}mask = ids_q[b, q] == ids_kv[b, kv]\n") == 1
    assert loads_a_step(f"{ids}mask = kv < 100000 or ids_q[b, q] == ids_kv[b, kv]\n") <= 1
