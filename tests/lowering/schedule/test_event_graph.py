"""The steady interval of the published schedule is that of the public models, and the simulator's."""

import pytest
from attnspec.lowering.schedule.event_graph import EventEdge, check_live, critical_circle, steady_edges
from attnspec.lowering.schedule.prices import Price, Prices
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.simulate import simulate

from tests.lowering.schedule.drafts import forward, prices_of, with_channel, with_placement

ALWAYS = {"rescale_threshold": 0.0, "emulated_share": 0.0}
LAZY = {"rescale_threshold": 8.0, "emulated_share": 0.125}


def interval(edges: tuple[EventEdge, ...]) -> float:
    circle = critical_circle(edges)
    return circle.cycles / circle.tokens


@pytest.mark.parametrize(("choices", "cycles"), [(ALWAYS, 3072), (LAZY, 2884)])
def test_published_order_takes_the_cycles_of_the_trial(choices: dict[str, float], cycles: int) -> None:
    """B200 latencies, D = 128: 900 + 532 + 128 + (112 + 796 or 720) + 92 + 512, from scores to the next scores."""
    made = forward()
    assert interval(steady_edges(made, prices_of(made, **choices))) == cycles


def test_rescaling_always_puts_the_correction_on_the_critical_circle() -> None:
    made = forward()
    always, lazy = (critical_circle(steady_edges(made, prices_of(made, **choices))) for choices in (ALWAYS, LAZY))
    assert any(edge.before.startswith("rescale") for edge in always.edges)
    assert not any(edge.before.startswith("rescale") for edge in lazy.edges)


@pytest.mark.parametrize("dims", [(64, 64), (128, 128), (192, 128)])
@pytest.mark.parametrize("choices", [ALWAYS, LAZY])
def test_cycle_ratio_is_the_interval_of_the_self_timed_run(dims: tuple[int, int], choices: dict[str, float]) -> None:
    made = forward(*dims)
    prices = prices_of(made, **choices)
    run = simulate(made, prices, (60,))
    assert run.interval("mma_qk[0]", 20, 50) == pytest.approx(interval(steady_edges(made, prices)), abs=1e-6)


def test_slots_for_keys_and_values_hide_slow_loads() -> None:
    made = forward()
    shallow = with_placement(with_channel(with_channel(made, "k", depth=2), "v", depth=2), "kv", depth=2)
    quick = prices_of(made, **LAZY)
    slow = Prices(tuple((name, Price(30.0, 1300.0) if name in ("load_k", "load_v") else item) for name, item in quick.operations))
    assert interval(steady_edges(made, quick)) == interval(steady_edges(made, slow)) == 2884
    assert interval(steady_edges(shallow, slow)) > 2884


def test_greatest_ratio_is_found_among_circles() -> None:
    edges = (
        EventEdge("a", "b", 0, 5, ""), EventEdge("b", "a", 1, 2, ""), EventEdge("b", "b", 1, 6, ""),
        EventEdge("b", "c", 1, 10, ""), EventEdge("c", "a", 1, 6, ""),
    )  # fmt: skip
    circle = critical_circle(edges)
    assert (circle.cycles, circle.tokens) == (21, 2)


def test_circle_without_a_token_is_not_live() -> None:
    edges = (EventEdge("a", "b", 0, 1, "full x"), EventEdge("b", "a", 0, 1, "empty x"), EventEdge("a", "a", 1, 1, "program"))
    with pytest.raises(ScheduleError, match=r"deadlock: in the steady loop .*full x"):
        check_live(edges)


def test_circle_whose_tokens_cancel_is_not_live() -> None:
    with pytest.raises(ScheduleError, match="deadlock"):
        check_live((EventEdge("a", "b", 1, 1, ""), EventEdge("b", "a", -1, 1, "")))
