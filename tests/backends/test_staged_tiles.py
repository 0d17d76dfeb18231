"""Values of keys and distances lie in shared memory whole and by themselves, whatever a tile's rows and keys: in the emulator.

Tiles have fewer keys than rows where heads are wide, and more keys than a group of warps has threads where scores are bounded.
Whole slots of keys of 192 columns and values of 128 leave staged values no room (`last_copy`).
"""

from typing import Any

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.emulation import emulation

import attnspec

TEXT = """attention staged
head_dim {dims}
input bonus: f32[batch, len_kv]
input ids_q: i32[batch, len_q]
input ids: i32[batch, len_kv]
input table: f32[heads, 65]
score = score + bonus[b, kv] + table[h, clamp(qpos - kv, -32, 32) + 32]
{cap}
mask = document(ids_q, ids) or qpos == kv
"""
CAP = "score = softcap(score, 30.0)"
# No staged value names `h`, so that a tile may hold rows of several heads.
OF_ALL_HEADS = TEXT.replace("[heads, 65]", "[65]").replace("table[h, ", "table[").replace("{cap}", "group 4\n{cap}")
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("target", "dims", "cap"),
    [
        ("sm100", "256", ""),
        ("sm90", "128", CAP),
        ("sm100", "192, 128", ""),
        pytest.param("sm100", "192, 128", CAP, marks=slow),
        pytest.param("sm100", "136, 72", "", marks=slow),
        pytest.param("sm100", "192, 64", "", marks=slow),
        pytest.param("sm100", "136", CAP, marks=slow),
        pytest.param("sm100", "128, 256", "", marks=slow),
        pytest.param("sm100", "128", CAP, marks=slow),
        pytest.param("sm90", "72", CAP, marks=slow),
        pytest.param("sm90", "64", CAP, marks=slow),
        pytest.param("sm90", "192", "", marks=slow),
        pytest.param("sm90", "192, 128", CAP, marks=slow),
        pytest.param("sm90", "256", "", marks=slow),
    ],
)
def test_values_staged_for_a_tile_of_any_shape_are_right(target: str, dims: str, cap: str) -> None:
    attention = attnspec.build(TEXT.format(dims=dims, cap=cap), on="emulator", target=target)
    rows = compare(attention, draw_inputs(attention.spec, Shape(1, 1, 1, 20, 330), 0), forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


@slow
@pytest.mark.parametrize(
    ("text", "dims", "shape", "options"),
    [
        (TEXT, "192, 128", Shape(2, 2, 1, 300, 330), {}),
        (TEXT, "192, 128", Shape(1, 2, 1, 140, 200), {"ctas": 2}),
        (OF_ALL_HEADS, "192, 128", Shape(2, 4, 1, 9, 150), {}),
        (OF_ALL_HEADS, "192, 128", Shape(2, 4, 1, 9, 330), {"splits": 2}),
        (OF_ALL_HEADS, "192, 128", Shape(2, 8, 2, 9, 150), {"ctas": 2}),
        (OF_ALL_HEADS, "256", Shape(2, 4, 1, 9, 150), {}),
        (OF_ALL_HEADS, "128", Shape(2, 4, 1, 9, 300), {"query_tiles": 1}),
    ],
    ids=["tiles of a CTA", "pair", "packed heads", "packed heads, parts", "pair, a group", "packed wide heads", "one query tile"],
)
def test_staged_values_are_right_and_the_same_for_every_timing(
    text: str, dims: str, shape: Shape, options: dict[str, Any]
) -> None:
    attention = attnspec.build(text.format(dims=dims, cap=""), on="emulator", target="sm100", **options)
    inputs = draw_inputs(attention.spec, shape, 0)
    rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]

    def results(seed: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        with emulation(seed) as run:
            found = attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.tensors, **inputs.keywords)
        assert not any(report.faults for report in run.reports)
        return found

    first = results(None)
    for seed in range(4):
        assert all(map(torch.equal, results(seed), first)), seed
