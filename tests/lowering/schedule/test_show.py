"""Schedules as people and machines read them."""

import json

import pytest
from attnspec.lowering.schedule.show import schedule_as_dict, show_critical, show_schedule

from tests.golden_text import check_golden
from tests.lowering.schedule.drafts import forward, prices_of, verified


@pytest.mark.parametrize("dims", [(64, 64), (128, 128), (192, 128)])
def test_schedule_is_shown_as_golden(dims: tuple[int, int]) -> None:
    check_golden(f"schedule_forward_{dims[0]}_{dims[1]}.txt", show_schedule(verified(forward(*dims))))


def test_costs_show_what_the_mask_adds() -> None:
    schedule = verified(forward())
    assert "with mask" in show_schedule(schedule, prices_of(forward()))


def test_critical_circle_adds_up_to_the_interval() -> None:
    schedule = verified(forward())
    assert sum(cycles for _, cycles in schedule.proof.critical) == schedule.proof.interval == 2788
    assert "bottleneck: a step takes 2788 cycles" in show_critical(schedule)


def test_dictionary_of_a_schedule_is_plain_json() -> None:
    found = json.loads(json.dumps(schedule_as_dict(verified(forward()))))
    assert [role["name"] for role in found["roles"]][:3] == ["softmax0", "softmax1", "correction"]
    assert found["bottleneck"] == "tensor"
