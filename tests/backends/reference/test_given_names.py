"""Every name that is given, wherever the language lets it stand, against the oracle."""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from attnspec.language.expr import FLOATS, INDICES, SIZES

HEADER = "attention named\nhead_dim 8\ndtype fp16\nlearned t: f32[heads]\n"
PER_HEAD = ("h", "hkv", *SIZES)


def is_right(statements):
    attention = attnspec.build(HEADER + statements)
    rows = compare(attention, draw_inputs(attention.spec, Shape(2, 4, 2, 5, 131)))
    return all(row.is_right for row in rows)


@pytest.mark.parametrize("name", [*INDICES, "qpos", *SIZES, *FLOATS])
def test_a_given_name_in_the_score(name):
    assert is_right(f"score = score * t[h] + softcap({name}, 3.0)\n")


@pytest.mark.parametrize("name", [*INDICES, "qpos", *SIZES])
def test_a_given_name_in_the_mask(name):
    assert is_right(f"score = score * t[h]\nmask = (kv + {name}) % 3 != 0\n")


@pytest.mark.parametrize("name", PER_HEAD)
def test_a_given_name_in_the_sink(name):
    assert is_right(f"sink = t[h] * {name} * 0.1\n")


def test_the_softmax_scale_in_the_score_is_the_one_the_file_gives():
    assert is_right("input s: f32\nscale s * 0.5\nscore = score * t[h] + scale\n")
