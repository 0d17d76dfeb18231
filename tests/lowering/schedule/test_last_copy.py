"""Two slots for keys of 192 columns and values of 128: values alone come to the second, which is as short as they are."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.last_copy import last_bytes
from attnspec.lowering.schedule.place import draft, place
from attnspec.lowering.schedule.refusal import ScheduleError, Unsupported
from attnspec.lowering.schedule.schedule import Draft, Uses
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.verify import verify

from attnspec.language.expr import Binary, Name, Read
from tests.lowering.by_hand import SCORE, analysed
from tests.lowering.schedule.drafts import forward, with_channel, with_placement

BONUS = Read("bonus", (Name("kv", "int"),), "float")
STAGED = analysed(192, 128, score=Binary("+", SCORE, BONUS, "float"))
GRAPH = draw(STAGED, "forward")
MADE = draft(GRAPH, STAGED, LIMITS)
PRICES = price(GRAPH, STAGED, MADE.choices, LIMITS)
VALUE_BYTES = 128 * 128 * 2


def test_values_of_keys_fit_beside_heads_of_192_and_cost_no_slot_and_no_cycle() -> None:
    schedule, plain = place(GRAPH, STAGED, LIMITS), forward(192, 128)
    kv = schedule.placement("kv")
    assert (kv.depth, kv.size, kv.last) == (2, 128 * 192 * 2, VALUE_BYTES)
    assert schedule.placement("o_out").offset == kv.end() == kv.start(1) + VALUE_BYTES
    assert schedule.shared_bytes <= LIMITS.shared_bytes
    assert schedule.proof.interval == verify(plain, LIMITS, PRICES).proof.interval


def test_where_whole_slots_fit_all_are_whole() -> None:
    assert {item.last for made in (forward(192, 128), forward(128), forward(64)) for item in made.placements} == {None}


@pytest.mark.parametrize(("depth", "size"), [(1, 49152), (2, VALUE_BYTES), (3, 49152), (4, VALUE_BYTES)])
def test_a_last_slot_is_short_only_if_slots_come_round_with_keys_and_values(depth: int, size: int) -> None:
    assert last_bytes(GRAPH, "kv", depth) == size


def test_what_takes_no_turns_is_whole() -> None:
    assert [last_bytes(GRAPH, name, 2) for name in ("q", "o_out", "staged")] == [49152, 32768, 512]


def test_refusal_counts_the_short_slot() -> None:
    small = replace(LIMITS, shared_bytes=200 * 1024)
    needed = MADE.placement("staged").end() + 1024
    with pytest.raises(Unsupported, match=rf"need {needed} bytes .* has 204800"):
        draft(GRAPH, STAGED, small)


def three_slots(made: Draft) -> Draft:
    ring = with_channel(with_channel(made, "k", depth=3), "v", depth=3)
    return with_placement(replace(ring, shared_bytes=ring.shared_bytes + 49152 + 16), "kv", depth=3)


CORRUPTIONS: dict[str, tuple[str, Callable[[Draft], Draft]]] = {
    "shorter than a value": ("last-copy", lambda d: with_placement(d, "kv", last=VALUE_BYTES - 1024)),
    "shorter than a value, where values are first": (
        "last-copy",
        lambda d: with_channel(with_channel(d, "k", uses=Uses(2, 0, 1)), "v", uses=Uses(2, 0, 0)),
    ),
    "third slot, to which keys come too": ("last-copy", three_slots),
    "short copy of what is not streamed": ("last-copy", lambda d: with_placement(d, "q", last=32768)),
    "short copy of what threads write": ("last-copy", lambda d: with_placement(d, "stats", last=512)),
    "short copy of what no channel hands over": ("last-copy", lambda d: with_placement(d, "staged", last=256)),
    "nothing left of it": ("placement-size", lambda d: with_placement(d, "kv", last=0)),
    "longer than the others": ("placement-size", lambda d: with_placement(d, "kv", last=49152 + 1024)),
    "whole, over the output": ("overlap", lambda d: with_placement(d, "kv", last=None)),
    "output over its end": ("overlap", lambda d: with_placement(d, "o_out", offset=MADE.placement("kv").end() - 1024)),
    "staged values over the output": (
        "overlap",
        lambda d: with_placement(d, "staged", offset=d.placement("o_out").end() - 512),
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_places_are_refused_by_name(name: str) -> None:
    rule, corrupt = CORRUPTIONS[name]
    with pytest.raises(ScheduleError) as refusal:
        verify(corrupt(MADE), LIMITS, PRICES)
    assert refusal.value.name == rule, refusal.value


@pytest.mark.parametrize("trips", [(0,), (1,), (2,), (5,), (3, 0, 2, 0, 0, 1, 5, 1)])
def test_every_sequence_of_tiles_ends_with_every_value_in_place(trips: tuple[int, ...]) -> None:
    runs = [simulate(MADE, PRICES, trips, jitter=3.0 * seed, seed=seed) for seed in range(4)]
    assert all(run.is_fine for run in runs), [(run.faults, run.stuck) for run in runs]


def test_a_place_shorter_than_values_goes_wrong_on_the_machine() -> None:
    made = with_placement(MADE, "o_out", offset=MADE.placement("kv").end() - 1024)
    runs = (simulate(made, PRICES, (5, 1, 0, 3), jitter=jitter, seed=seed) for jitter in (0.0, 20.0) for seed in range(6))
    assert any(not run.is_fine for run in runs)
