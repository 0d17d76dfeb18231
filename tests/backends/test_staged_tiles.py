"""Values of keys and distances lie in shared memory whole and by themselves, whatever a tile's rows and keys: in the emulator.

Tiles have fewer keys than rows where heads are wide, and more keys than a group of warps has threads where scores are bounded.
"""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

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
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("target", "dims", "cap"),
    [
        ("sm100", "256", ""),
        ("sm90", "128", CAP),
        pytest.param("sm100", "136", CAP, marks=slow),
        pytest.param("sm100", "128, 256", "", marks=slow),
        pytest.param("sm100", "128", CAP, marks=slow),
        pytest.param("sm90", "72", CAP, marks=slow),
        pytest.param("sm90", "64", CAP, marks=slow),
        pytest.param("sm90", "192", "", marks=slow),
        pytest.param("sm90", "256", "", marks=slow),
    ],
)
def test_values_staged_for_a_tile_of_any_shape_are_right(target: str, dims: str, cap: str) -> None:
    attention = attnspec.build(TEXT.format(dims=dims, cap=cap), on="emulator", target=target)
    rows = compare(attention, draw_inputs(attention.spec, Shape(1, 1, 1, 20, 330), 0), forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]
