"""deterministic=True: the backward's bits do not depend on timing, on the number of multiprocessors, or on the batch."""

from functools import cache

import pytest
import torch
from attnspec.runtime.compare import judge
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape

import attnspec
from attnspec import stages
from tests.backends.in_one_order import CAUSAL, LEARNED, SCATTERED, gradients, of_second_sequence, through_autograd
from tests.small_constants import SMALL, VARIANTS, path_of

RUNS = [(1, 1), (2, 2), (3, 3), (4, 2)]  # timing, multiprocessors


@cache
def built(text: str) -> attnspec.Attention:
    return attnspec.build(text, on="emulator")


@pytest.mark.slow
@pytest.mark.parametrize("text", [CAUSAL, SCATTERED, LEARNED])
def test_bits_are_those_of_program_order_for_every_timing_and_number_of_processors(text: str) -> None:
    attention = built(text)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 390), 1)
    first = gradients(attention, "sm100", inputs, None, 2)
    for seed, processors in RUNS:
        assert all(map(torch.equal, gradients(attention, "sm100", inputs, seed, processors), first)), (seed, processors)


@pytest.mark.slow
def test_a_sequence_has_the_same_bits_in_any_batch() -> None:
    attention = built(CAUSAL)
    both = draw_inputs(attention.spec, Shape(2, 2, 1, 200, 200), 3)
    alone = gradients(attention, "sm100", of_second_sequence(both), 5, 2)
    together = gradients(attention, "sm100", both, 6, 2)
    assert all(torch.equal(left, right[1:]) for left, right in zip(alone, together, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_deterministic_gradients_of_every_variant_agree_with_the_oracle(variant: str) -> None:
    attention = attnspec.build(path_of(variant), on="emulator", **SMALL.get(variant, {}))
    shape = Shape(1, 1, 1, 20, 150) if (attention.spec.group or 1) > 8 else Shape(1, 2, 1, 140, 260)
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 0)
    rows = judge(attention, inputs, [through_autograd(attention, inputs)], False)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def test_key_tiles_that_begin_later_are_started_last_first_where_dq_has_an_order() -> None:
    analysed = built(CAUSAL).analysed
    texts = [
        stages.emit(analysed, stages.place(stages.draw(analysed, "backward", deterministic=one), analysed)).modules[0].text
        for one in (False, True)
    ]
    assert ["last_first=True" in text for text in texts] == [False, True]
    assert ["turns" in text for text in texts] == [False, True]
