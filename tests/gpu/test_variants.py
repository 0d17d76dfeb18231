"""Every variant, head dimensions of every kind, and random variants on a real GPU: forward and backward against the oracle."""

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape

import attnspec
from tests.random_variants import random_variant
from tests.small_constants import SMALL, VARIANTS, path_of

SHAPES = (
    Shape(1, 2, 1, 300, 417),
    Shape(1, 2, 2, 4, 2),
    Shape(2, 1, 1, 1, 1),
    Shape(1, 2, 1, 130, 700),
    Shape(2, 4, 2, 1000, 1500),
)
FEW = SHAPES[:3]
DETERMINISTIC_RUNS = 3
WIDTHS = (("8", "bf16"), ("40", "fp16"), ("96", "bf16"), ("128", "fp16"), ("136, 200", "bf16"), ("192", "bf16"), ("256", "bf16"))
RANDOM = 100


def wrong_rows(attention: attnspec.Attention, device: torch.device, shapes: tuple[Shape, ...]) -> list[tuple[object, ...]]:
    """Results and gradients beyond their tolerances."""
    found: list[tuple[object, ...]] = []
    for shape in shapes:
        inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1).on(device)
        rows = compare(attention, inputs)
        found += [(shape, row.name, row.error, row.worst) for row in rows if not row.is_right]
    return found


def gradients_of(attention: attnspec.Attention, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """Those of a deterministic call."""
    names = ("q", "k", "v", *attention.learned)
    given = {"q": inputs.q, "k": inputs.k, "v": inputs.v} | inputs.tensors
    leaves = {name: given[name].clone().requires_grad_() for name in names}
    out = attention(**(given | leaves), deterministic=True, **inputs.keywords)
    return torch.autograd.grad(out, list(leaves.values()), inputs.dout)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("constants", ["as they stand", "small"])
def test_results_and_gradients_are_those_of_the_oracle(device, variant, constants):
    if constants == "small" and variant not in SMALL:
        pytest.skip("has no constants that a few hundred positions are small for")
    attention = attnspec.build(path_of(variant), **(SMALL[variant] if constants == "small" else {}))
    assert wrong_rows(attention, device, SHAPES) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_deterministic_gradients_are_the_same_bits_every_time(device, variant):
    attention = attnspec.build(path_of(variant), **SMALL.get(variant, {}))
    for shape in (SHAPES[0], SHAPES[-1]):
        inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1).on(device)
        first, *others = (gradients_of(attention, inputs) for _ in range(DETERMINISTIC_RUNS))
        assert all(torch.equal(one, same) for other in others for one, same in zip(other, first, strict=True)), shape


@pytest.mark.parametrize(("dims", "dtype"), WIDTHS)
def test_every_head_dimension_is_right(device, dims, dtype):
    attention = attnspec.build(f"attention wide\nhead_dim {dims}\ndtype {dtype}\nmask = kv <= qpos\n")
    assert wrong_rows(attention, device, SHAPES) == []


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_variants_are_right(device, seed):
    try:
        attention = attnspec.build(random_variant(seed))
    except attnspec.SpecError as error:
        assert error.diagnostics[0].name == "mask-hides-every-key"  # the one rule that random masks break
        return
    assert wrong_rows(attention, device, FEW) == []
