"""Every variant forward and backward through autograd by one CTA and by pairs, with twenty timings and
inputs, all checks on: `make test-seeds`. A backward that pairs refuse is of one CTA in both."""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulation import emulation

import attnspec
from tests.small_constants import SMALL, VARIANTS, path_of

SEEDS = 20
SHAPES = [Shape(1, 2, 1, 200, 300), Shape(1, 2, 2, 4, 2), Shape(2, 1, 1, 130, 128), Shape(1, 1, 1, 257, 129)]
FEW = Shape(1, 1, 1, 20, 30)  # where a group has many heads
MANY_HEADS = 8


@pytest.mark.seeds
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_agree_with_the_oracle_for_every_timing(variant: str, ctas: int) -> None:
    attention = attnspec.build(path_of(variant), on="emulator", ctas=ctas, **SMALL.get(variant, {}))
    shapes = [FEW] if (attention.spec.group or 1) > MANY_HEADS else SHAPES
    for seed in range(SEEDS):
        shape = fit_shape(attention.spec, shapes[seed % len(shapes)])
        with emulation(seed):
            rows = compare(attention, draw_inputs(attention.spec, shape, seed))
        assert all(row.is_right for row in rows), (seed, shape, [(row.name, row.error, row.worst) for row in rows])
