"""Ranges of integers against every value that the expression takes."""

import numpy as np
import pytest
from attnspec.runtime.integers import interval_of, value_at, written
from attnspec.runtime.oracle_expression import evaluate

import attnspec
from attnspec.language.expr import nodes
from attnspec.language.limits import MAX_INT, MIN_INT
from tests.random_variants import Draw

SIZES = {"batch": 2, "heads": 4, "kv_heads": 2, "len_q": 37, "len_kv": 61}
RANGES = {name: (size, size) for name, size in SIZES.items()} | {"q": (0, 36), "kv": (0, 60), "h": (0, 3), "b": (0, 1)}
OPERATIONS = (
    "(q - 20) // -max(kv - 9, 3)", "(q - 20) % 7", "(20 - q) % -7", "(q - 9) & (kv - 5)", "q | kv", "(q - 9) ^ kv",
    "(q - 20) >> (kv & 7)", "q << (kv & 3)", "abs(q - 9)", "min(q, 5) * max(kv - 30, q)", "q if kv > 3 else kv - 9",
    "(q - 20) * (kv - 30)", "-q", "(q - 9) | (kv - 5)", "-(q | -3)",
)  # fmt: skip


def check(text):
    mask = attnspec.build(f"attention ranges\nhead_dim 8\nmask = ({text}) == 12345 or kv <= qpos\n").spec.mask
    assert mask is not None
    given = {name: np.int64(size) for name, size in SIZES.items()} | {"q": np.arange(37)[:, None], "kv": np.arange(61)[None]}
    for at in nodes(mask):
        if at.kind == "int":
            low, high = interval_of(at, RANGES, {})
            values = np.asarray(evaluate(at, given, {}).value)
            assert low <= values.min(), at
            assert values.max() <= high, at
            assert low >= MIN_INT
            assert high <= MAX_INT


@pytest.mark.parametrize("text", OPERATIONS)
def test_a_range_holds_every_value(text):
    check(text)


@pytest.mark.parametrize("seed", range(60))
def test_a_range_holds_every_value_of_a_random_expression(seed):
    draw = Draw(seed)
    check(f"{draw.position()} {draw.pick('+', '-', '*')} {draw.position()}")


def test_a_shape_is_known_at_the_sizes_and_shown_as_it_was_written():
    spec = attnspec.build("attention shape\nhead_dim 8\ninput t: f32[2 * len_kv - 1]\nscore = score + t[kv]\n").spec
    (extent,) = spec.tensors[0].shape
    assert value_at(extent, SIZES) == 121
    assert written(extent) == "2 * len_kv - 1"
