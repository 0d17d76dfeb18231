"""A backward schedule that is changed in one place is refused."""

from dataclasses import fields, replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, ProgramStep, Schedule
from attnspec.lowering.schedule.verify import verify

from tests.lowering.by_hand import analysed

VARIANT = analysed(128, 128)
SCHEDULE: Schedule = place(draw(VARIANT, "backward"), VARIANT, LIMITS)
DRAFT = Draft(**{item.name: getattr(SCHEDULE, item.name) for item in fields(Draft)})
NAMES = [channel.name for channel in DRAFT.channels]
RELEASED = [channel.name for channel in DRAFT.channels if channel.empty is not None]


def checked(draft: Draft) -> Schedule:
    return verify(draft, LIMITS, price(draft.dataflow, VARIANT, draft.choices, LIMITS))


def with_channel(name: str, **changes: object) -> Draft:
    return replace(DRAFT, channels=tuple(replace(item, **changes) if item.name == name else item for item in DRAFT.channels))


def with_program(kind: str, program: list[ProgramStep]) -> Draft:
    return replace(
        DRAFT, roles=tuple(replace(role, program=tuple(program)) if role.kind == kind else role for role in DRAFT.roles)
    )


def program(kind: str) -> list[ProgramStep]:
    return list(next(role.program for role in DRAFT.roles if role.kind == kind))


def test_schedule_as_made_is_accepted() -> None:
    assert checked(DRAFT).proof.interval == SCHEDULE.proof.interval


@pytest.mark.parametrize("name", NAMES)
def test_schedule_without_a_hand_over_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError):
        checked(replace(DRAFT, channels=tuple(item for item in DRAFT.channels if item.name != name)))


@pytest.mark.parametrize("name", RELEASED)
def test_slots_that_are_not_given_back_are_refused(name: str) -> None:
    ring = next(item.ring for item in DRAFT.channels if item.name == name)
    emptied = (replace(item, empty=None, implied_by="a guess") if item.ring == ring else item for item in DRAFT.channels)
    with pytest.raises(ScheduleError):
        checked(replace(DRAFT, channels=tuple(emptied)))


@pytest.mark.parametrize("name", NAMES)
def test_wrong_count_of_arrivals_is_refused(name: str) -> None:
    full = next(item.full for item in DRAFT.channels if item.name == name)
    with pytest.raises(ScheduleError, match=r"arrivals|ring"):
        checked(with_channel(name, full=replace(full, count=full.count + 1)))


@pytest.mark.parametrize("name", ["k", "q", "do", "rows"])
def test_wrong_bytes_are_refused(name: str) -> None:
    full = next(item.full for item in DRAFT.channels if item.name == name)
    with pytest.raises(ScheduleError, match="bytes"):
        checked(with_channel(name, full=replace(full, bytes=full.bytes - 16)))


def test_dp_before_the_query_gradient_that_shares_its_columns_is_refused() -> None:
    steps = {step.operation: step for step in program("mma")}
    order = ["mma_s", "mma_dk", "mma_dp", "mma_dq", "mma_dv"]
    with pytest.raises(ScheduleError):
        checked(with_program("mma", [steps[name] for name in order]))


def test_query_gradient_before_the_key_gradient_has_read_its_operand_is_refused() -> None:
    steps = {step.operation: step for step in program("mma")}
    order = ["mma_s", "mma_dq", "mma_dk", "mma_dp", "mma_dv"]
    with pytest.raises(ScheduleError):
        checked(with_program("mma", [steps[name] for name in order]))


def test_next_scores_before_p_has_been_multiplied_are_refused() -> None:
    steps = [replace(step, stage=1) if step.operation == "mma_dv" else step for step in program("mma")]
    with pytest.raises(ScheduleError):
        checked(with_program("mma", steps))


def test_hand_over_of_dq_of_the_same_step_is_refused() -> None:
    with pytest.raises(ScheduleError):
        checked(with_channel("drained", distance=0))


def test_accumulator_over_scores_is_refused() -> None:
    moved = tuple(replace(item, offset=0) if item.buffer == "dv" else item for item in DRAFT.placements)
    with pytest.raises(ScheduleError, match="overlap"):
        checked(replace(DRAFT, placements=moved))
