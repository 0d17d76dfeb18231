"""Warpgroups that multiply in turn: what the search finds for Hopper, and what the proof says of it."""

from dataclasses import replace

import pytest
from attnspec.lowering.schedule.complete import complete
from attnspec.lowering.schedule.find_solution import find_solution
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.lowering.schedule.verify import verify

from attnspec import stages

PLAIN = "attention plain\nhead_dim {}\n"


def schedule(text: str, **choices: object) -> Schedule:
    analysed = stages.analyse(stages.read(text))
    question = ask(stages.draw(analysed, "forward", "sm90"), analysed, stages.limits_of("sm90"))
    question = replace(question, choices=replace(question.choices, **choices))
    made = complete(question.dataflow, find_solution(question)[0], question.choices, question.dims, question.limits)
    return verify(made, question.limits, question.expected)


@pytest.mark.parametrize(("width", "cycles"), [("128", 2048), ("64", 1536)])
def test_in_turn_the_tensor_core_never_waits(width: str, cycles: int) -> None:
    """128 rows by 128 keys at D 128, 192 rows at D 64: two products at 4096 operations a cycle."""
    assert schedule(PLAIN.format(width)).proof.interval == pytest.approx(cycles)


def test_all_at_once_it_waits_for_the_exponentials() -> None:
    assert schedule(PLAIN.format("128"), takes_turns=False).proof.interval > 1.2 * 2048


def test_a_turn_goes_from_one_warpgroup_to_the_next() -> None:
    circle = [name for name, _ in schedule(PLAIN.format("128")).proof.critical]
    assert sorted(circle) == ["mma_pv:0", "mma_pv:1", "mma_qk:0", "mma_qk:1"]


@pytest.mark.parametrize("text", [PLAIN.format(64), PLAIN.format(128), PLAIN.format("64") + "score = softcap(score, 50.0)\n"])
def test_products_are_waited_for_where_their_results_are_needed(text: str) -> None:
    program = [step.operation for role in schedule(text).roles if role.kind == "attend" for step in role.program]
    needs = ("rescale", "convert") if "rescale" in program else ("convert",)
    assert program[program.index("await_o") + 1] in needs


def test_exponentials_are_emulated_only_where_the_special_function_unit_is_the_busiest() -> None:
    assert schedule(PLAIN.format(128)).choices.emulated_share == 0.0
    capped = schedule(PLAIN.format(64) + "score = softcap(score, 50.0)\n").choices.emulated_share
    assert 0.25 <= capped <= 0.375
