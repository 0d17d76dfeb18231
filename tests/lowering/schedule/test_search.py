"""Published schedules come out of the search, and where something better is possible, that comes out."""

from dataclasses import replace
from typing import Any

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow import forward
from attnspec.lowering.schedule.complete import complete
from attnspec.lowering.schedule.event_graph import critical_circle, steady_edges
from attnspec.lowering.schedule.search import search
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.verify import verify

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.questions import ALWAYS, LAZY, bounded, program, question, timed


@pytest.mark.parametrize(("choices", "cycles"), [(ALWAYS, 3072), (LAZY, 2884)])
def test_published_forward_is_found_with_its_interval(choices: dict[str, Any], cycles: int) -> None:
    """FA4: PV of one query tile, then its next scores, then the same of the other; loads as the first scores need them."""
    found = search(question(analysed(), **choices))
    assert found.timing.interval == cycles and found.timing.is_least
    assert program(found, "mma") == ("mma_pv_head[0]' mma_pv_tail[0]' mma_qk[0] mma_pv_head[1]' mma_pv_tail[1]' mma_qk[1]")
    assert program(found, "load") == "load_q[0] load_k load_q[1] load_v"
    assert [role.name for role in found.solution.roles[:3]] == ["softmax0", "softmax1", "correction"]


def test_steady_loop_alone_asks_for_a_correction_warpgroup_only_where_every_step_rescales() -> None:
    """Rescaling one step in ten costs nothing beside the other query tile's exponentials; rescaling always does."""
    lazy, always = (question(analysed(), **choices) for choices in (LAZY, ALWAYS))
    assert timed(lazy, "other").interval == timed(lazy, "apart").interval == 2884
    assert timed(always, "other").interval == 3136 > timed(always, "apart").interval


def test_worst_step_keeps_the_correction_warpgroup() -> None:
    assert search(question(analysed(), **LAZY)).warpgroups == 3


def test_half_the_head_dim_gives_p_columns_of_its_own_and_fills_tensor_memory() -> None:
    asked = question(analysed(64), emulated_share=0.0)
    found = search(asked)
    made = complete(asked.dataflow, found.solution, asked.choices, asked.dims, LIMITS)
    assert found.solution.separate == ("p",)
    assert max(item.start(item.depth - 1) + item.size for item in made.placements if item.space == "tensor") == 512
    assert found.timing.interval == 2048 == asked.expected.total("mufu")
    assert timed(asked, "apart").interval == 2548


def test_bounded_score_loses_the_correction_role() -> None:
    found = search(question(bounded()))
    assert found.warpgroups == 2
    assert not any("correction" in role.kind for role in found.solution.roles)


@pytest.mark.parametrize("dims", [(128, 128), (64, 64), (192, 128), (8, 8)])
def test_what_is_found_is_verified_and_runs_on_the_machine(dims: tuple[int, int]) -> None:
    asked = question(analysed(*dims))
    found = search(asked)
    made = complete(asked.dataflow, found.solution, asked.choices, asked.dims, LIMITS)
    circle = critical_circle(steady_edges(verify(made, LIMITS, asked.expected), asked.expected))
    assert circle.cycles / circle.tokens <= found.timing.interval + 1e-6
    for seed in range(3):
        assert simulate(made, asked.expected, (3, 0, 1, 0, 0, 4), jitter=3.0 * seed, seed=seed).is_fine


def test_every_grouping_that_has_an_order_is_verified() -> None:
    told: list[str] = []
    search(question(analysed()), told.append)
    assert [line.partition(":")[0] for line in told] == ["apart", "own", "other", "together"]


def test_search_finds_the_same_again() -> None:
    first, second = (search(question(analysed(64))).solution for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("head_dim", "choices"), [(128, ALWAYS), (128, LAZY), (64, LAZY)])
def test_three_quarters_of_p_are_as_good_a_start_for_the_product_as_any(
    head_dim: int, choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within what the cost table can tell apart; on hardware earlier hand-overs are slower (measured, by others)."""
    cycles: dict[int, float] = {}
    for keys in (32, 64, 96):
        monkeypatch.setattr(forward, "NARROW", replace(forward.NARROW, head_keys=keys))
        cycles[keys] = search(question(analysed(head_dim), **choices)).timing.interval
    assert cycles[96] <= min(cycles.values()) * 1.01
