"""Variants that nobody ships, forward and backward against the oracle, where tiles end and where they just go on."""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from tests.odd_variants import HEADER, ODD

SHAPES = (
    Shape(2, 4, 2, 128, 129),
    Shape(1, 4, 1, 130, 260),
    Shape(2, 2, 2, 1, 257),
    Shape(2, 4, 2, 9, 4),
    Shape(1, 4, 2, 127, 1),
)


@pytest.mark.parametrize(("name", "shape"), [(name, SHAPES[i % len(SHAPES)]) for i, name in enumerate(ODD)])
def test_an_odd_variant_agrees_with_the_oracle(name, shape):
    attention = attnspec.build(HEADER + ODD[name])
    rows = compare(attention, draw_inputs(attention.spec, shape))
    assert [row for row in rows if not row.is_right] == []
