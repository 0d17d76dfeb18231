"""Where wide heads leave Hopper's forward no room for two steps of keys and values: rings apart, the output over the queries."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.forward_in_registers import PLAIN, Storage
from attnspec.lowering.schedule.choose_storage import choose_storage
from attnspec.lowering.schedule.complete import complete
from attnspec.lowering.schedule.find_solution import find_solution
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.search import Question, cycles_of_key
from attnspec.lowering.schedule.simulate import Simulation, simulate
from attnspec.lowering.schedule.verify import verify

from attnspec import stages
from tests.lowering.schedule.drafts import with_channel, without_channel

LIMITS = stages.limits_of("sm90")
OVER = Storage(over_query=True)
TILES = (2, 0, 1, 3, 0, 0, 1, 2)  # steps of a CTA's work tiles


def asked(dims: str, storage: Storage | None = None) -> Question:
    analysed = stages.analyse(stages.read(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n"))
    chosen = choose_storage(analysed, LIMITS) if storage is None else storage
    return ask(draw(analysed, "forward", in_registers=True, storage=chosen), analysed, LIMITS)


def drafted(question: Question) -> Draft:
    return complete(question.dataflow, find_solution(question)[0], question.choices, question.dims, LIMITS)


def chosen(dims: str) -> Storage:
    return choose_storage(stages.analyse(stages.read(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n")), LIMITS)


@pytest.mark.parametrize("dims", ["8", "64", "96", "128", "128, 64"])
def test_where_a_ring_holds_two_steps_nothing_changes(dims: str) -> None:
    assert chosen(dims) == PLAIN


@pytest.mark.parametrize(
    ("dims", "form", "interval"),
    [
        ("256", Storage(over_query=True, shape=1), 2560),
        ("192", Storage(over_query=True, shape=1), 2688),
        ("192, 128", Storage(True, True), 2560),
        ("136, 200", Storage(True), 1376),
    ],
)
def test_wide_heads_keep_the_tensor_core_busy(dims: str, form: Storage, interval: int) -> None:
    """Both products at 4096 operations a cycle, 128 rows by 80, 112, 128 and 64 keys. An O that is wider than q stays beside."""
    assert chosen(dims) == form
    question = asked(dims)
    assert verify(drafted(question), LIMITS, question.expected).proof.interval == pytest.approx(interval)


def test_a_longer_wait_at_the_end_of_a_tile_is_counted() -> None:
    """At D 128 there is nothing to gain: the same steps, and a tile whose queries wait for the output before it."""
    plain, over = (asked("128", form) for form in (PLAIN, OVER))
    costs = [cycles_of_key(question, find_solution(question)[0]) for question in (plain, over)]
    assert costs[0] * 1.01 < costs[1] < costs[0] * 1.05


def test_queries_come_last_where_they_have_to_wait() -> None:
    made = drafted(asked("256"))
    assert [step.operation for step in made.role_of("load_q").program] == ["load_k", "load_v", "load_q"]
    assert made.role_of("free_q").name == made.role_of("store_o").name


def test_the_output_lies_over_the_queries_and_takes_no_room() -> None:
    made = drafted(asked("256", OVER))
    assert made.placement("o_out").offset == made.placement("q").offset
    assert made.placement("kv").depth == drafted(asked("256", PLAIN)).placement("kv").depth + 2


def run(made: Draft, seed: int = 0) -> Simulation:
    return simulate(made, asked("256").expected, TILES, jitter=4.0 * seed, seed=seed)


@pytest.mark.parametrize("dims", ["256", "192, 128", "136, 200"])
def test_hand_overs_hold_in_the_simulator(dims: str) -> None:
    question = asked(dims)
    made = drafted(question)
    assert all(simulate(made, question.expected, TILES, jitter=4.0 * seed, seed=seed).is_fine for seed in range(4))


def without_edge() -> Draft:
    """The output over the queries in a graph that does not say when these may come."""
    question = asked("256", PLAIN)
    over = tuple(replace(item, over="q") if item.name == "o_out" else item for item in question.dataflow.buffers)
    return drafted(replace(question, dataflow=replace(question.dataflow, buffers=over)))


def with_no_wait(made: Draft) -> Draft:
    """A graph in which nobody waits for the store before he lets queries come."""
    values = tuple(value for value in made.dataflow.values if value.consumer != "free_q")
    return replace(made, dataflow=replace(made.dataflow, values=values))


MUTANTS: dict[str, tuple[str, Callable[[], Draft]]] = {
    "no edge in the graph": ("unordered", without_edge),
    "no hand-over": ("edge-without-channel", lambda: without_channel(drafted(asked("256")), "room")),
    "no wait for the store": ("unordered", lambda: with_no_wait(drafted(asked("256")))),
    "an empty tile's output over the one before": (
        "not-implied",
        lambda: with_channel(drafted(asked("256")), "out", empty=None, implied_by="room"),
    ),
    "counted in all tiles": ("uneven-uses", lambda: with_channel(drafted(asked("256")), "room", once_a_tile=False)),
    "outputs counted in few": ("uneven-uses", lambda: with_channel(drafted(asked("256")), "out", once_a_tile=True)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_refused(name: str) -> None:
    rule, make = MUTANTS[name]
    with pytest.raises(ScheduleError, match=rule):
        verify(make(), LIMITS, asked("256").expected)


@pytest.mark.parametrize("name", ["no edge in the graph", "no hand-over", "an empty tile's output over the one before"])
def test_mutant_goes_wrong_in_the_simulator(name: str) -> None:
    made = MUTANTS[name][1]()
    assert not all(run(made, seed).is_fine for seed in range(4))
