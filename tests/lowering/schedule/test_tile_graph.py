"""The period of whole tiles: what the event graph of a tile says is what tiles take on the machine."""

from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.schedule.prices import Price, Prices
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.tile_graph import tile_overhead, tile_period
from attnspec.lowering.schedule.unroll import Occurrence
from attnspec.lowering.schedule.verify import verify

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.drafts import forward, prices_of, verified
from tests.lowering.schedule.questions import draft_of, question


@pytest.mark.parametrize("dims", [(64, 64), (128, 128), (192, 128)])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_period_is_that_of_the_self_timed_run(dims: tuple[int, int], steps: int) -> None:
    """A tile more than is looked at: a role that rolls comes to its end sooner where none follows."""
    made = forward(*dims)
    prices = prices_of(made)
    run = simulate(made, prices, (steps,) * 17)
    first, last = (run.starts[Occurrence("finish[0]", tile)] for tile in (7, 15))
    assert (last - first) / 8 == pytest.approx(tile_period(made, prices, steps).cycles, rel=1e-6)


def test_each_step_more_costs_one_interval() -> None:
    made = forward()
    prices = prices_of(made)
    periods = [tile_period(made, prices, steps).cycles for steps in (4, 5, 12)]
    interval = verified(made).proof.interval
    assert periods[1] - periods[0] == interval
    assert periods[2] - periods[1] == 7 * interval


def with_rolls(made: Draft, rolls: bool) -> Draft:
    return replace(made, roles=tuple(replace(role, rolls=rolls and role.kind == "mma") for role in made.roles))


def without_finish(prices: Prices) -> Prices:
    return replace(prices, of_tile=tuple((name, Price(0, 0) if "finish" in name else p) for name, p in prices.of_tile))


def test_finishing_a_tile_is_hidden_behind_the_next_if_the_tensor_role_drains() -> None:
    """What the correction warpgroup is for: if finishing cost nothing, no tile would come sooner; other groupings pay for it."""
    made = with_rolls(forward(), False)
    prices = prices_of(made)
    assert prices.of("finish[0]").hold > 900
    assert tile_period(made, without_finish(prices), 6).cycles == tile_period(made, prices, 6).cycles
    crossed = with_rolls(draft_of(question(analysed()), "other"), False)
    assert tile_period(crossed, without_finish(prices), 6).cycles < tile_period(crossed, prices, 6).cycles


def test_finishing_a_tile_is_all_that_is_left_of_its_boundary_if_the_tensor_role_rolls() -> None:
    made = forward()
    prices, interval = prices_of(made), verified(made).proof.interval
    assert 0 < tile_overhead(made, prices, interval) < 0.3 * 2 * prices.of("finish[0]").hold
    assert tile_overhead(made, without_finish(prices), interval) == 0


def test_tensor_role_that_rolls_on_to_the_next_tile_does_not_drain() -> None:
    """Otherwise the next tile's first scores come after this tile's last products: two products and scores for themselves."""
    made = forward()
    prices = prices_of(made, emulated_share=0.0)
    interval = verify(made, LIMITS, prices).proof.interval
    draining = with_rolls(made, False)
    assert verify(draining, LIMITS, prices).proof.interval == interval
    assert tile_overhead(draining, prices, interval) == 2 * 512
    assert tile_overhead(made, prices, interval) < 100
