"""The period of whole tiles: what the event graph of a tile says is what tiles take on the machine."""

from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.schedule.prices import Price
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
    made = forward(*dims)
    prices = prices_of(made)
    run = simulate(made, prices, (steps,) * 16)
    first, last = (run.starts[Occurrence("finish[0]", tile)] for tile in (7, 15))
    assert (last - first) / 8 == pytest.approx(tile_period(made, prices, steps).cycles, rel=1e-6)


def test_each_step_more_costs_one_interval() -> None:
    made = forward()
    prices = prices_of(made)
    periods = [tile_period(made, prices, steps).cycles for steps in (4, 5, 12)]
    interval = verified(made).proof.interval
    assert periods[1] - periods[0] == interval
    assert periods[2] - periods[1] == 7 * interval


def test_finishing_a_tile_is_hidden_behind_the_next() -> None:
    """What the correction warpgroup is for: if finishing cost nothing, no tile would come sooner; other groupings pay for it."""
    made = forward()
    prices = prices_of(made)
    free = replace(prices, of_tile=tuple((name, Price(0, 0) if "finish" in name else p) for name, p in prices.of_tile))
    assert prices.of("finish[0]").hold > 900
    assert tile_period(made, free, 6).cycles == tile_period(made, prices, 6).cycles
    crossed = draft_of(question(analysed()), "other")
    assert tile_period(crossed, free, 6).cycles < tile_period(crossed, prices, 6).cycles


def rolling(made: Draft) -> Draft:
    return replace(made, roles=tuple(replace(role, rolls=role.kind == "mma") for role in made.roles))


def test_tensor_role_that_rolled_on_to_the_next_tile_would_never_drain() -> None:
    """Now the next tile's first scores are issued after this tile's last products: two products and scores for themselves."""
    made = forward()
    prices = prices_of(made, emulated_share=0.0)
    interval = verify(made, LIMITS, prices).proof.interval
    assert tile_overhead(made, prices, interval) == 2 * 512
    assert verify(rolling(made), LIMITS, prices).proof.interval == interval
    assert tile_overhead(rolling(made), prices, interval) < 100
    assert simulate(rolling(made), prices, (3, 0, 1, 2, 0, 0, 4), jitter=3.0).is_fine
