"""Every variant forward and backward through autograd, by one CTA and by pairs, with twenty timings and inputs and all checks on:
`make test-seeds`. The forward's bits are those of program order. A backward that pairs refuse is of one CTA in both.
"""

from typing import Any

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape
from attnspec.runtime.emulation import emulation

import attnspec
from tests.small_constants import SMALL, VARIANTS, path_of

SEEDS = 20
SHAPES = [Shape(1, 2, 1, 200, 300), Shape(1, 2, 2, 4, 2), Shape(2, 1, 1, 130, 128), Shape(1, 1, 1, 257, 129)]
FEW = Shape(1, 1, 1, 20, 30)  # where a group has many heads
MANY_HEADS = 8


def results_of(attention: attnspec.Attention, inputs: Inputs, timing: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """out and the log-sum-exp, by a timing; None is program order."""
    with emulation(timing):
        return attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.tensors, **inputs.keywords)


@pytest.mark.seeds
@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_agree_with_the_oracle_for_every_timing(variant: str, ctas: int) -> None:
    constants: dict[str, Any] = {"ctas": ctas, **SMALL.get(variant, {})}
    attention = attnspec.build(path_of(variant), on="emulator", **constants)
    shapes = [FEW] if (attention.spec.group or 1) > MANY_HEADS else SHAPES
    for seed in range(SEEDS):
        shape = fit_shape(attention.spec, shapes[seed % len(shapes)])
        inputs = draw_inputs(attention.spec, shape, seed)
        with emulation(seed):
            rows = compare(attention, inputs)
        late, early = (results_of(attention, inputs, timing) for timing in (seed, None))
        assert all(torch.equal(one, other) for one, other in zip(late, early, strict=True)), (seed, shape)
        assert all(row.is_right for row in rows), (seed, shape, [(row.name, row.error, row.worst) for row in rows])
