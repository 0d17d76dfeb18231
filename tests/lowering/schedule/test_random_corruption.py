"""A schedule changed at random is refused, or does no harm: the proofs of `verify` against runs on the machine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.graph import Value
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, ProgramStep
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.verify import verify
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lowering.schedule.drafts import forward, prices_of, with_channel, with_placement, with_program

TURN = Value("exp_tail[0]", "exp_head[1]", None)
VALID = forward()
VARIED = [VALID, forward(64), forward(192, 128), forward(edges=[TURN])]
SMALL = st.integers(-2, 6)


def changed(items: tuple, at: int, **fields: Any) -> tuple:
    return tuple(replace(item, **fields) if index == at else item for index, item in enumerate(items))


@st.composite
def one_number_changed(draw: st.DrawFn) -> Draft:
    """The valid draft with one number drawn anew."""
    kind = draw(st.sampled_from(["channel", "uses", "full", "empty", "placement", "role", "stage", "whole"]))
    if kind in ("channel", "uses", "full", "empty"):
        at = draw(st.integers(0, len(VALID.channels) - 1))
        names = {"channel": ["depth", "distance"], "uses": ["steps", "tiles", "offset"]}.get(kind, ["count", "bytes"])
        number = {draw(st.sampled_from(names)): draw(SMALL)}
        part = None if kind == "channel" else getattr(VALID.channels[at], kind)
        fields = number if kind == "channel" else {kind: part and replace(part, **number)}
        return replace(VALID, channels=changed(VALID.channels, at, **fields))
    if kind == "placement":
        at = draw(st.integers(0, len(VALID.placements) - 1))
        name = draw(st.sampled_from(["offset", "size", "depth", "stride", "last"]))
        number = draw(st.integers(0, 4)) * (1 if name == "depth" else draw(st.sampled_from([1, 32, 64, 1024, 32768])))
        return replace(VALID, placements=changed(VALID.placements, at, **{name: number}))
    if kind == "role":
        at = draw(st.integers(0, len(VALID.roles) - 1))
        return replace(VALID, roles=changed(VALID.roles, at, registers=draw(st.integers(0, 300))))
    if kind == "stage":
        role = draw(st.sampled_from(["mma", "load", "softmax0", "correction"]))
        at, stage = draw(st.integers(0, 7)), draw(SMALL)
        return with_program(VALID, role, lambda program: changed(tuple(program), at % len(program), stage=stage))
    name = draw(st.sampled_from(["threads", "shared_bytes", "tensor_columns"]))
    return replace(VALID, **{name: draw(st.integers(0, 300000))})


def swapped(program: Sequence[ProgramStep], one: int, other: int) -> list[ProgramStep]:
    steps = list(program)
    one, other = one % len(steps), other % len(steps)
    steps[one], steps[other] = steps[other], steps[one]
    return steps


@st.composite
def several_things_changed(draw: st.DrawFn) -> Draft:
    """A draft that hangs together, but with other orders, depths, or fewer empty barriers."""
    made = draw(st.sampled_from(VARIED))
    for roles in draw(st.sets(st.sampled_from([("mma",), ("load",), ("correction",), ("softmax0", "softmax1")]), max_size=2)):
        one, other = draw(st.integers(0, 7)), draw(st.integers(0, 7))
        for role in roles:
            made = with_program(made, role, lambda program, one=one, other=other: swapped(program, one, other))
    slots = draw(st.integers(1, 3))
    if slots <= made.placement("kv").depth:
        made = with_placement(with_channel(with_channel(made, "k", depth=slots), "v", depth=slots), "kv", depth=slots)
    if draw(st.booleans()):
        ring = draw(st.sampled_from(sorted({channel.ring for channel in made.channels})))
        emptied = (replace(item, empty=None, implied_by="a guess") if item.ring == ring else item for item in made.channels)
        made = replace(made, channels=tuple(emptied))
    return made


def check(made: Draft, seed: int) -> None:
    prices = prices_of(made)
    try:
        verify(made, LIMITS, prices)
    except ScheduleError:
        return
    for trips, jitter in (((4, 0, 1, 2, 3), 5.0), ((7, 1), 0.0), ((1, 0, 1, 1, 2, 0, 0, 3), 30.0)):
        run = simulate(made, prices, trips, jitter=jitter, seed=seed)
        assert run.is_fine, (run.faults, run.stuck)


@given(one_number_changed(), st.integers(0, 1000))
@settings(max_examples=120, deadline=None)
def test_one_changed_number_is_refused_or_does_no_harm(made: Draft, seed: int) -> None:
    check(made, seed)


@given(several_things_changed(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_other_orders_and_depths_are_refused_or_do_no_harm(made: Draft, seed: int) -> None:
    check(made, seed)
