"""A number changed at random is refused, or does no harm."""

from dataclasses import replace

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.verify import verify
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lowering.schedule.drafts import forward, prices_of

VALID = forward()
PRICES = prices_of(VALID)
SMALL = st.integers(-2, 6)


def changed(items: tuple, at: int, **fields: object) -> tuple:
    return tuple(replace(item, **fields) if index == at else item for index, item in enumerate(items))


@st.composite
def corrupted(draw: st.DrawFn) -> Draft:
    """The valid draft with one number drawn anew."""
    kind = draw(st.sampled_from(["channel", "uses", "full", "empty", "placement", "role", "stage", "swap", "whole"]))
    if kind in ("channel", "uses", "full", "empty"):
        at = draw(st.integers(0, len(VALID.channels) - 1))
        item = VALID.channels[at]
        if kind == "channel":
            fields = {draw(st.sampled_from(["depth", "distance"])): draw(SMALL)}
        elif kind == "uses":
            fields = {"uses": replace(item.uses, **{draw(st.sampled_from(["steps", "tiles", "offset"])): draw(SMALL)})}
        else:
            end = getattr(item, kind)
            if end is None:
                return VALID
            fields = {kind: replace(end, **{draw(st.sampled_from(["count", "bytes"])): draw(SMALL)})}
        return replace(VALID, channels=changed(VALID.channels, at, **fields))
    if kind == "placement":
        at = draw(st.integers(0, len(VALID.placements) - 1))
        name = draw(st.sampled_from(["offset", "size", "depth", "stride"]))
        number = draw(st.integers(0, 4)) if name == "depth" else draw(st.integers(0, 4096)) * draw(st.sampled_from([1, 64, 1024]))
        return replace(VALID, placements=changed(VALID.placements, at, **{name: number}))
    if kind == "role":
        at = draw(st.integers(0, len(VALID.roles) - 1))
        return replace(VALID, roles=changed(VALID.roles, at, registers=draw(st.integers(0, 300))))
    if kind in ("stage", "swap"):
        return draw(programs(kind))
    name = draw(st.sampled_from(["threads", "shared_bytes", "tensor_columns"]))
    return replace(VALID, **{name: draw(st.integers(0, 300000))})


@st.composite
def programs(draw: st.DrawFn, kind: str) -> Draft:
    """A stage drawn anew, or two operations of a program that have changed places."""
    at = draw(st.integers(0, len(VALID.roles) - 2))
    program = list(VALID.roles[at].program)
    one, other = (draw(st.integers(0, len(program) - 1)) for _ in range(2))
    if kind == "stage":
        program[one] = replace(program[one], stage=draw(SMALL))
    else:
        program[one], program[other] = program[other], program[one]
    return replace(VALID, roles=changed(VALID.roles, at, program=tuple(program)))


@given(corrupted(), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_changed_number_is_refused_or_the_machine_runs_all_the_same(made: Draft, seed: int) -> None:
    try:
        verify(made, LIMITS, PRICES)
    except ScheduleError:
        return
    for trips in ((4, 0, 1, 2, 3), (7, 1)):
        run = simulate(made, PRICES, trips, jitter=5.0, seed=seed)
        assert run.is_fine, (run.faults, run.stuck)
