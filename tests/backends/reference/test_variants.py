"""Every shipped variant, forward and backward, through the public API against the float64 oracle."""

from dataclasses import replace

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape

import attnspec
from tests.small_constants import SMALL, VARIANTS, path_of

SHAPES = {
    "one": Shape(2, 2, 1, 1, 1),
    "many": Shape(1, 2, 1, 300, 517),
    "empty rows": Shape(2, 2, 1, 4, 2),
}
LARGEST_GROUP = 5  # at the long shape: more heads repeat the same arithmetic


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_variant_agrees_with_the_oracle(variant, dtype, shape):
    spec = replace(attnspec.build(path_of(variant), **SMALL.get(variant, {})).spec, dtype=dtype)
    if shape == "many" and spec.group is not None:
        spec = replace(spec, group=min(spec.group, LARGEST_GROUP))
    inputs = draw_inputs(spec, fit_shape(spec, SHAPES[shape]), seed=1)
    wrong = [row for row in compare(attnspec.build(spec), inputs) if not row.is_right]
    assert not wrong
