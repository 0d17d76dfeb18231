"""One query tile and two key tiles a step: faster than two query tiles in the model, for twice the traffic of keys and values."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.check_order import check_order, windows
from attnspec.lowering.schedule.choose_query_tiles import choose_query_tiles
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.place import ask, draft, place
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Channel, Schedule, Uses
from attnspec.lowering.schedule.search import Question, time
from attnspec.lowering.schedule.simulate import simulate

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.questions import ALWAYS, LAZY, assign_roles, bounded, question, timed


def asked(variant: Analysed, **choices: Any) -> Question:
    question = ask(draw(variant, "forward", one_query_tile=True), variant, LIMITS)
    chosen = replace(question.choices, **choices)
    return replace(question, choices=chosen, expected=price(question.dataflow, variant, chosen, LIMITS))


def placed(variant: Analysed) -> Schedule:
    return place(draw(variant, "forward", one_query_tile=True), variant, LIMITS)


def interval(question: Question) -> float:
    found = time(question, assign_roles(question.dataflow), ("p",))
    assert found is not None
    return found.interval


def test_model_chooses_one_query_tile_for_heads_of_no_more_rows_than_it_has_and_for_no_others() -> None:
    for variant in (analysed(), analysed(64), bounded()):
        assert [choose_query_tiles(variant, LIMITS, rows) for rows in (1, 128, 129, None)] == [1, 1, 2, 2]
    assert choose_query_tiles(analysed(192, 128), LIMITS, 1) == 2  # it does not fit


def test_tensor_core_is_never_idle_where_no_maximum_is_needed() -> None:
    schedule = placed(bounded())
    assert schedule.proof.interval == 2048 == schedule.proof.prices.total("tensor")
    assert timed(question(bounded(), emulated_share=0.0), "apart").interval == 2852
    assert place(draw(bounded(), "forward"), bounded(), LIMITS).proof.interval == 2660  # a quarter of the exponentials emulated


def test_tensor_core_is_never_idle_where_a_rescale_waits_for_o_only_if_it_is_taken() -> None:
    schedule = placed(analysed())
    assert schedule.proof.interval == 2048 == schedule.proof.prices.total("tensor")


def test_rescaling_always_is_far_from_the_bound() -> None:
    """Each key tile's rescale waits for the product before it, the product for the rescale."""
    assert interval(asked(analysed(), **LAZY)) == pytest.approx(2048, rel=0.0025)
    assert interval(asked(analysed(), **ALWAYS)) == 2 * (384 + 516 + 796 + 92)


def refused(corrupt: Callable[[Channel], Channel]) -> str:
    """The rule that a schedule breaks whose channels are other ones."""
    made = draft(draw(analysed(), "forward", one_query_tile=True), analysed(), LIMITS)
    with pytest.raises(ScheduleError) as caught:
        check_order(replace(made, channels=tuple(map(corrupt, made.channels))), windows(2))
    return caught.value.name


def test_nothing_leans_on_a_wait_that_may_be_left_out() -> None:
    """Were O waited for always, what a rescale hands on would need no barrier to be handed on again."""
    assert refused(lambda item: replace(item, empty=None) if item.name.startswith("rescaled") else item) == "not-implied"


def test_phase_that_nobody_waited_for_is_over_before_the_next_wait() -> None:
    """Products of both key tiles on one barrier: a rescale that takes its wait may find that of the product before the last."""

    def share(item: Channel) -> Channel:
        return replace(item, ring="o", uses=Uses(2, 0, int(item.name[-1]))) if item.name.startswith("o_step") else item

    assert refused(share) == "parity"


def test_scores_and_probabilities_lie_side_by_side_and_fill_tensor_memory() -> None:
    schedule = placed(analysed())
    ends = {item.buffer: item.start(item.depth - 1) + item.size for item in schedule.placements if item.space == "tensor"}
    assert max(ends.values()) == 512
    assert schedule.placement("p").overlays is None
    assert schedule.placement("o").depth == 1


def test_keys_come_a_step_before_values() -> None:
    program = placed(analysed()).role_of("load_k[0]").program
    assert [(step.operation, step.stage) for step in program] == [
        ("load_q", 0), ("load_k[0]", 0), ("load_v[0]", 1), ("load_k[1]", 0), ("load_v[1]", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("variant", [analysed(), analysed(64), bounded()])
def test_it_is_verified_and_runs_tiles_of_any_number_of_steps(variant: Analysed) -> None:
    schedule = placed(variant)
    for seed in range(3):
        run = simulate(schedule, schedule.proof.prices, (3, 0, 1, 2, 0, 0, 4), jitter=3.0 * seed, seed=seed)
        assert run.is_fine, (run.faults, run.stuck)


def test_keys_and_values_are_loaded_for_half_as_many_rows() -> None:
    one, two = draw(analysed(), "forward", one_query_tile=True), draw(analysed(), "forward")
    assert (one.streamed_bytes, two.streamed_bytes) == (4 * 32768, 2 * 32768)
    assert (one.query_tiles * one.key_tiles, two.query_tiles * two.key_tiles) == (2, 2)
    assert one.streamed_bytes / 2048 == 64
