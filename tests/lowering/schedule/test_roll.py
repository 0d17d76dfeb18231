"""Roles that go on to the next work tile before they have finished this one: which do, and that what they share stays safe."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from attnspec.backends.sm90.limits import LIMITS as HOPPER
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule import unroll
from attnspec.lowering.schedule.pair import both, prices_of_both
from attnspec.lowering.schedule.place import draft, place
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, Schedule
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.verify import verify

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.drafts import channel, prices_of, with_channel
from tests.lowering.schedule.questions import bounded

# Tiles without steps at either end, one after another, and between full ones; of one step, of odd numbers of them.
TILES = [(0, 3, 0, 0, 1, 1, 0, 2, 1), (1, 0, 0, 0, 5, 0), (1, 1, 1, 1), (4, 3, 0, 3)]


def rolling(schedule: Draft) -> set[str]:
    return {role.name for role in schedule.roles if role.rolls}


def placed(variant: Analysed, limits: Any = LIMITS, **graph: Any) -> Schedule:
    return place(draw(variant, "forward", **graph), variant, limits)


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("variant", [analysed(), analysed(64), analysed(192, 128), bounded(), bounded(64)])
def test_tensor_role_of_two_query_tiles_rolls(variant: Analysed, ctas: int) -> None:
    assert rolling(placed(variant, ctas=ctas)) == {"mma"}


def test_role_that_would_lose_by_it_does_not_roll() -> None:
    """Of one wide query tile nothing is under way beside it: its last product would wait for the scores of the next."""
    made = placed(analysed(256))
    assert not rolling(made)
    assert verify(_rolled(made), LIMITS, made.proof.prices).proof.interval == made.proof.interval


def test_roles_that_the_library_has_no_such_function_for_do_not_roll() -> None:
    variant = analysed(64)
    assert not rolling(placed(variant, one_query_tile=True))
    assert not rolling(place(draw(variant, "backward"), variant, LIMITS))
    assert not rolling(placed(variant, HOPPER, in_registers=True))


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("variant", [analysed(), analysed(64), bounded(64)])
def test_every_value_is_found_in_place_whatever_tiles_follow_one_another(variant: Analysed, tiles: tuple[int, ...]) -> None:
    made = made_of(variant)
    for seed in range(3):
        run = simulate(made, prices_of(made), tiles, jitter=4.0 * seed, seed=seed)
        assert run.is_fine, (run.faults, run.stuck)


@pytest.mark.parametrize("tiles", [pytest.param(tiles, marks=pytest.mark.slow) for tiles in TILES[1:]] + [TILES[0]])
def test_every_value_of_both_ctas_is_found_in_place_whatever_tiles_follow_one_another(tiles: tuple[int, ...]) -> None:
    made = placed(bounded(64), ctas=2).proof.draft
    prices = prices_of_both(made, prices_of(made))
    for seed in range(2):
        run = simulate(both(made), prices, tiles, jitter=4.0 * seed, seed=seed)
        assert run.is_fine, (run.faults, run.stuck)


def made_of(variant: Analysed) -> Draft:
    return draft(draw(variant, "forward"), variant, LIMITS)


def refusal_of(made: Draft) -> str:
    with pytest.raises(ScheduleError) as refusal:
        verify(made, LIMITS, prices_of(made))
    return refusal.value.name


def test_output_handed_over_before_its_last_product_is_refused() -> None:
    early = with_channel(made_of(bounded(64)), "o[0]", producer="mma_pv_head[0]")
    assert refusal_of(early) == "channel-without-edge"


def test_output_that_nobody_gives_back_is_refused_where_no_rescale_stands_between() -> None:
    made = made_of(bounded(64))
    assert channel(made, "o[0]").empty is not None
    assert refusal_of(with_channel(made, "o", empty=None, implied_by="row")) == "not-implied"


def test_queries_that_only_later_loads_protect_are_refused_for_the_first_tiles_of_a_cta() -> None:
    """With two slots, loads wait for products after the scores of the tile before, but the first ones wait for nothing."""
    made = made_of(analysed(192, 128))
    assert channel(made, "q[0]").empty is not None
    assert refusal_of(with_channel(made, "q", empty=None, implied_by="v")) == "not-implied"
    assert simulate(made, prices_of(made), (1, 1, 1, 1)).is_fine


def test_wait_for_the_output_at_the_product_that_signals_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product before that one writes it already."""
    made = made_of(bounded(64))
    verify(made, LIMITS, prices_of(made))
    monkeypatch.setattr(unroll, "first_writer", lambda dataflow, roles, channel: channel.producer)
    assert refusal_of(made) == "unordered"


def test_role_that_leaves_without_its_last_products_gets_the_others_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_of(analysed())
    whole = unroll.unroll

    def without_last(dataflow: Any, role: Any, trips: Any) -> Iterator[Any]:
        runs = list(whole(dataflow, role, trips))
        return iter([run for run in runs if not (role.rolls and "pv" in run.operation and run.step == sum(trips) - 1)])

    monkeypatch.setattr("attnspec.lowering.schedule.simulate.unroll", without_last)
    run = simulate(made, prices_of(made), (2, 3))
    assert any("finish" in text and "o[" in text for text in run.stuck)


def _rolled(made: Schedule) -> Draft:
    roles = tuple(replace(role, rolls=role.kind == "mma") for role in made.roles)
    return replace(made.proof.draft, roles=roles)
