"""The search finds the least interval: by enumeration for small loops, and as published for Hopper's forward."""

from itertools import combinations, product

from attnspec.lowering.schedule.event_graph import EventEdge, check_live, critical_circle
from attnspec.lowering.schedule.modulo import TOLERANCE, Item, Problem, least_interval
from attnspec.lowering.schedule.refusal import ScheduleError
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to three operations of one or two roles, tied by a ring of edges and one more."""
    count = draw(st.integers(2, 3))
    names = [f"v{at}" for at in range(count)]
    items = tuple(Item(name, float(draw(st.integers(1, 9)) * 10), (draw(st.sampled_from(["a", "b"])),)) for name in names)
    ring = [
        EventEdge(
            names[at], names[(at + 1) % count], int(at + 1 == count) * draw(st.integers(1, 2)), draw(st.integers(0, 60)), ""
        )
        for at in range(count)
    ]
    more = EventEdge(draw(st.sampled_from(names)), draw(st.sampled_from(names)), 1, draw(st.integers(0, 80)), "")
    return Problem(items, (*ring, more))


def enumerated(problem: Problem) -> float:
    """The least ratio over all offsets of all pairs that must not overlap."""
    pairs = [pair for pair in combinations(problem.items, 2) if set(pair[0].serial) & set(pair[1].serial)]
    best = float("inf")
    for lags in product(range(-2, 3), repeat=len(pairs)):
        edges = list(problem.edges) + [EventEdge(item.name, item.name, 1, item.hold, "") for item in problem.items]
        for (one, other), lag in zip(pairs, lags, strict=True):
            edges += [
                EventEdge(one.name, other.name, -lag, one.hold, ""),
                EventEdge(other.name, one.name, lag + 1, other.hold, ""),
            ]
        try:
            check_live(edges)
        except ScheduleError:
            continue
        circle = critical_circle(edges)
        best = min(best, circle.cycles / circle.tokens)
    return best


@given(problems())
@settings(max_examples=60, deadline=None)
def test_least_interval_is_that_of_the_best_of_all_orders(problem: Problem) -> None:
    found = least_interval(problem)
    best = enumerated(problem)
    assert found is not None and found.is_least
    assert best - 1e-6 <= found.interval <= best * (1 + TOLERANCE) + 1e-6


def test_starts_keep_every_edge_and_never_overlap() -> None:
    problem = hopper(128)
    found = least_interval(problem)
    assert found is not None
    for edge in found.edges:
        assert found.starts[edge.after] + edge.tokens * found.interval >= found.starts[edge.before] + edge.cycles - 1e-3
    for one, other in combinations(problem.items, 2):
        if set(one.serial) & set(other.serial):
            gap = (found.starts[other.name] - found.starts[one.name]) % found.interval
            assert one.hold - 1e-3 <= gap <= found.interval - other.hold + 1e-3


def test_loop_without_a_token_has_no_order() -> None:
    items = (Item("a", 1.0, ("r",)), Item("b", 1.0, ("r",)))
    assert least_interval(Problem(items, (EventEdge("a", "b", 0, 1, ""), EventEdge("b", "a", 0, 1, "")))) is None


def hopper(head_dim: int) -> Problem:
    """FA3's forward: two warpgroups of 64 rows that issue their own products of 128 keys and hold S, P and O in registers.

    4096 operations a clock; 16 exponentials a clock; a result is seen 128 cycles after the last.
    """
    run = 2.0 * 64 * 128 * head_dim / 4096
    holds = {"issue_s": 30.0, "exp": 64 * 128 / 16 + 2 * 64.0, "convert": 64.0, "rescale": head_dim / 2, "issue_pv": 30.0}
    items: list[Item] = []
    edges: list[EventEdge] = []
    for g in "01":
        items += [Item(name + g, hold, (f"group{g}",)) for name, hold in holds.items()]
        items += [Item(name + g, run, ("tensor",)) for name in ("s", "pv")]
        waits = [
            ("issue_s", "s", 0, 30.0), ("s", "exp", 0, run + 128), ("exp", "convert", 0, holds["exp"]),
            ("convert", "rescale", 0, 64.0), ("rescale", "issue_pv", 0, holds["rescale"]), ("issue_pv", "pv", 0, 30.0),
            ("pv", "rescale", 1, run + 128),  # O
            ("convert", "issue_s", 1, 64.0),  # S is overwritten
            ("pv", "convert", 1, run + 128),  # P is overwritten
        ]  # fmt: skip
        edges += [EventEdge(before + g, after + g, tokens, cycles, "") for before, after, tokens, cycles in waits]
    return Problem(tuple(items), tuple(edges))


def test_hopper_reaches_its_bound_with_two_groups_in_turn() -> None:
    found = least_interval(hopper(128))
    assert found is not None
    assert 2048 <= found.interval <= 2048 * (1 + TOLERANCE)


def test_hopper_s_half_head_dim_issues_the_next_scores_before_the_product() -> None:
    """FA3's second trick: the products are short, and S of step j + 1 runs while softmax of j does."""
    found = least_interval(hopper(64))
    assert found is not None
    assert found.interval < 1.25 * 1024
    assert found.starts["issue_s0"] + found.interval < found.starts["issue_pv0"]
