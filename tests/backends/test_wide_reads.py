"""Heads above 128 beside tensors read in every way, learned ones too, of several batches: both directions in the emulator."""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec

# Read by element, distance, key and row; work tiles of heads above 128 are done in two parts, of which one counts these.
LEARNED = """attention learned
head_dim {dims}
group 2
learned bias: f32[heads, len_q, len_kv]
learned table: f32[heads, 65]
learned gate: f32[batch, len_kv]
learned row: f32[batch, heads, len_q]
learned sinks: f32[heads]
score = score * (1.0 + 0.1 * row[b, h, q]) + bias[h, q, kv] + table[h, clamp(qpos - kv, -32, 32) + 32] + gate[b, kv]
{cap}
mask = kv <= qpos + 40
sink = sinks[h]
"""
CAP = "score = softcap(score, 30.0)"
DISTANCES = """attention distances
head_dim {dims}
learned table: f32[heads, 65]
learned gate: f32[batch, len_kv]
score = score + table[h, clamp(qpos - kv, -32, 32) + 32] + gate[b, kv]
{cap}
mask = kv <= qpos + 40
"""
ELEMENT = """attention element
head_dim {dims}
input bias: f32[batch, heads, len_q, len_kv]
score = score + bias[b, h, q, kv]
{cap}
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm100", "sm90"])
@pytest.mark.parametrize(
    ("text", "dims", "cap"),
    [
        (LEARNED, "192, 128", ""),
        (LEARNED, "256", ""),
        (LEARNED, "136, 200", ""),
        (LEARNED, "192, 128", CAP),
        (DISTANCES, "64, 256", ""),
        (DISTANCES, "136", CAP),
        (ELEMENT, "256", ""),
        (ELEMENT, "200, 128", CAP),
    ],
)
def test_whatever_is_read_of_several_batches_is_right_beside_wide_heads(target: str, text: str, dims: str, cap: str) -> None:
    attention = attnspec.build(text.format(dims=dims, cap=cap), on="emulator", target=target)
    rows = compare(attention, draw_inputs(attention.spec, Shape(2, 2, 1, 40, 150), 1))
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]
