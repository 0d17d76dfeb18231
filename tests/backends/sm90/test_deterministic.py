"""deterministic=True on Hopper: CTAs that wait for one another, so that the backward's bits depend on nothing but its inputs."""

from functools import cache

import pytest
import torch
from attnspec.runtime.compare import judge
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape

import attnspec
from attnspec import stages
from tests.backends.in_one_order import CAUSAL, LEARNED, SCATTERED, gradients, of_second_sequence, through_autograd
from tests.small_constants import SMALL, VARIANTS, path_of

RUNS = [(1, 1), (2, 2), (4, 2), (5, 3), (3, 3), (8, 3)]  # timing, multiprocessors
DENSE = "attention dense\nhead_dim 64\n"
DOCUMENTS = (
    "attention documents\nhead_dim 64\ninput ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
    "mask = causal and document(ids_q, ids_kv)\n"
)
WIDE = "attention wide\nhead_dim 192, 128\nmask = kv <= qpos\n"


@cache
def built(text: str) -> attnspec.Attention:
    return attnspec.build(text, target="sm90", on="emulator")


@cache
def module_text(text: str, deterministic: bool) -> str:
    analysed = stages.analyse(stages.read(text))
    graph = stages.draw(analysed, "backward", "sm90", deterministic=deterministic)
    return stages.emit(analysed, stages.place(graph, analysed, "sm90")).module("backward").text


def test_two_multiprocessors_give_the_bits_of_one() -> None:
    attention = built(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 20, 260), 1)
    one, two = (gradients(attention, "sm90", inputs, seed, count) for seed, count in ((None, 1), (2, 2)))
    assert all(map(torch.equal, one, two))


@pytest.mark.slow
@pytest.mark.parametrize("text", [CAUSAL, SCATTERED, LEARNED, WIDE])
def test_bits_are_those_of_program_order_for_every_timing_and_number_of_processors(text: str) -> None:
    attention = built(text)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 390), 1)
    first = gradients(attention, "sm90", inputs, None, 2)
    for seed, processors in RUNS:
        assert all(map(torch.equal, gradients(attention, "sm90", inputs, seed, processors), first)), (seed, processors)


@pytest.mark.slow
def test_a_sequence_has_the_same_bits_in_any_batch() -> None:
    attention = built(CAUSAL)
    both = draw_inputs(attention.spec, Shape(2, 2, 1, 200, 200), 3)
    alone = gradients(attention, "sm90", of_second_sequence(both), 5, 2)
    together = gradients(attention, "sm90", both, 6, 2)
    assert all(torch.equal(left, right[1:]) for left, right in zip(alone, together, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_deterministic_gradients_of_every_variant_agree_with_the_oracle(variant: str) -> None:
    attention = attnspec.build(path_of(variant), target="sm90", on="emulator", **SMALL.get(variant, {}))
    shape = Shape(1, 1, 1, 20, 150) if (attention.spec.group or 1) > 8 else Shape(1, 2, 1, 140, 260)
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 0)
    rows = judge(attention, inputs, [through_autograd(attention, inputs)], False)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def test_only_ctas_that_wait_for_one_another_are_resident_together() -> None:
    plain, fixed = (module_text(CAUSAL, deterministic) for deterministic in (False, True))
    assert ["cooperative=True" in text for text in (plain, fixed)] == [False, True]
    assert ["last_first=True" in text for text in (plain, fixed)] == [False, True]


@pytest.mark.parametrize(("text", "goes_on"), [(CAUSAL, True), (DENSE, False), (DOCUMENTS, False)])
def test_ctas_go_on_to_another_tile_where_rounds_share_tiles_out(text: str, goes_on: bool) -> None:
    """Elsewhere each tile has a CTA of its own, but where they wait for one another."""
    for deterministic in (False, True):
        deal = next(line for line in module_text(text, deterministic).splitlines() if "deal_key_tiles(PLAN" in line)
        assert ("processors" in deal) == (goes_on or deterministic)


def test_sums_of_learned_tensors_are_exact_where_their_bits_are_promised() -> None:
    plain, fixed = (module_text(LEARNED, deterministic) for deterministic in (False, True))
    for name in ("Exact", "settle"):
        assert (name in plain, name in fixed) == (False, True)
