"""Operations that a role runs as one: all waits first, all signals last."""

from dataclasses import fields, replace
from random import Random
from typing import Literal

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule import refuse_pair
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.pair import both, prices_of_both
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, Schedule
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.verify import verify

from attnspec import stages
from tests.lowering.schedule.drafts import stretched

# The derivative by a temperature names the score, which is not linear in it: scores are needed again with dP.
VARIANT = "attention learns\nhead_dim {}\nlearned t: f32[heads]\nscore = softcap(score * t[h], 20.0)\n"
TRIPS = (3, 0, 1, 2)


def graph(head_dim: int, ctas: Literal[1, 2] = 1) -> tuple[Analysed, Dataflow]:
    variant = stages.analyse(stages.read(VARIANT.format(head_dim)))
    return variant, stages.draw(variant, "backward", "sm100", ctas=ctas)


def draft_of(schedule: Schedule, dataflow: Dataflow) -> Draft:
    values = {item.name: getattr(schedule, item.name) for item in fields(Draft)}
    return Draft(**{**values, "dataflow": dataflow})


def test_a_step_that_needs_the_score_with_dp_is_one_operation_of_the_computing_role() -> None:
    variant, dataflow = graph(128)
    (group,) = dataflow.together
    schedule = place(dataflow, variant, LIMITS)
    (role,) = (role for role in schedule.roles if role.kind == "compute")
    assert tuple(step.operation for step in role.program) == group


def test_it_takes_longer_than_if_every_operation_signalled_at_once() -> None:
    variant, dataflow = graph(128)
    apart = place(replace(dataflow, together=()), variant, LIMITS)
    assert place(dataflow, variant, LIMITS).proof.interval > apart.proof.interval


@pytest.mark.parametrize("ctas", [1, 2])
def test_simulated_on_barriers_it_comes_to_its_end(ctas: Literal[1, 2]) -> None:
    variant, dataflow = graph(64, ctas)
    schedule = place(dataflow, variant, LIMITS)
    draft = draft_of(schedule, dataflow)
    prices = prices_of_both(draft, schedule.proof.prices)
    for seed in range(5):
        run = simulate(both(draft), stretched(prices, seed), TRIPS)
        assert run.is_fine, run.faults + run.stuck


def test_a_pair_whose_query_gradient_lies_beside_p_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right, were P signalled at once; but it is signalled with dS, whose slot is free when what P has made room for is done."""
    monkeypatch.setattr(refuse_pair, "has_own_columns", lambda *_: True)  # else it is refused by name
    variant, dataflow = graph(128, 2)
    apart = place(replace(dataflow, together=()), variant, LIMITS)
    draft = draft_of(apart, dataflow)
    with pytest.raises(ScheduleError, match="deadlock"):
        verify(draft, LIMITS, price(dataflow, variant, draft.choices, LIMITS))
    prices = prices_of_both(draft, apart.proof.prices)
    assert simulate(both(draft), prices, TRIPS).stuck
    assert simulate(both(draft_of(apart, apart.dataflow)), prices, TRIPS).is_fine
    with pytest.raises(ScheduleError, match="no-schedule"):
        place(dataflow, variant, LIMITS)


def test_another_order_of_them_is_refused() -> None:
    variant, dataflow = graph(128)
    schedule = place(dataflow, variant, LIMITS)
    (role,) = (role for role in schedule.roles if role.kind == "compute")
    random = Random(1)
    for _ in range(5):
        program = list(role.program)
        while tuple(program) == role.program:
            random.shuffle(program)
        roles = tuple(replace(role, program=tuple(program)) if one is role else one for one in schedule.roles)
        draft = replace(draft_of(schedule, dataflow), roles=roles)
        with pytest.raises(ScheduleError, match="together"):
            verify(draft, LIMITS, schedule.proof.prices)
