"""One query tile and two key tiles a step: faster than two query tiles in the model, for twice the traffic of keys and values."""

from dataclasses import replace
from typing import Any

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.complete import find_depths
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.loop_problem import loop_problem
from attnspec.lowering.schedule.modulo import least_interval
from attnspec.lowering.schedule.place import ask, place
from attnspec.lowering.schedule.schedule import Schedule
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


def test_tensor_core_is_never_idle_where_no_maximum_is_needed() -> None:
    schedule = placed(bounded())
    assert schedule.proof.interval == 2048 == schedule.proof.prices.total("tensor")
    assert timed(question(bounded(), emulated_share=0.0), "apart").interval == 2852
    assert place(draw(bounded(), "forward"), bounded(), LIMITS).proof.interval == 2660  # a quarter of the exponentials emulated


def test_rescaling_seldom_is_near_the_bound_and_always_is_far_from_it() -> None:
    """Each key tile's rescale waits for the product before it: 516 + 80 + 92 + 384 cycles for one tile, if it always waits."""
    assert interval(asked(analysed(), **LAZY)) == pytest.approx(2 * (384 + 516 + 79.6 + 92))
    assert interval(asked(analysed(), **ALWAYS)) == 2 * (384 + 516 + 796 + 92)


def test_rescale_that_waits_for_o_only_where_it_is_taken_is_at_the_bound() -> None:
    question = asked(analysed(), **LAZY)
    flow = question.dataflow
    names = {step.operation: role.name for role in assign_roles(flow) for step in role.program}
    roles = {item.name: names[item.name] for item in flow.operations if item.rate == "step"}
    blind = replace(flow, values=tuple(value for value in flow.values if not value.name.startswith("o_step")))
    depths = find_depths(flow, question.dims, LIMITS)
    found = least_interval(loop_problem(blind, roles, depths, question.expected, {}, glued=True))
    assert found is not None and found.interval <= 2048 * 1.0025


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
