"""Two CTAs that share keys and values: what the graph says of it, what follows, and what is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from attnspec.backends.sm90.limits import LIMITS as HOPPER
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.graph import Operation
from attnspec.lowering.schedule.choose_ctas import choose_ctas, explain_ctas
from attnspec.lowering.schedule.pair import both, prices_of_both
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.refusal import ScheduleError, Unsupported
from attnspec.lowering.schedule.schedule import Arrivals, Draft
from attnspec.lowering.schedule.show import show_schedule
from attnspec.lowering.schedule.simulate import simulate

from tests.golden_text import check_golden
from tests.lowering.by_hand import analysed
from tests.lowering.schedule.drafts import channel, forward, prices_of, verified, with_channel, with_graph, with_program


def pair() -> Draft:
    return forward(ctas=2)


def test_schedule_of_a_pair_is_shown_as_golden() -> None:
    check_golden("schedule_forward_pair_128_128.txt", show_schedule(verified(pair())))


def test_a_pair_runs_the_program_of_one_cta() -> None:
    assert [role.program for role in pair().roles] == [role.program for role in forward().roles]


@pytest.mark.parametrize(("dims", "bytes"), [((128, 128), 32768), ((64, 64), 24576), ((192, 128), 40960), ((8, 8), 24576)])
def test_each_cta_streams_half_of_the_keys_and_of_the_columns_of_values(dims: tuple[int, int], bytes: int) -> None:
    """A row of keys, or half of one of values, takes 128 bytes at least."""
    assert draw(analysed(*dims), "forward", ctas=2).streamed_bytes == bytes


def test_half_tiles_make_the_ring_twice_as_deep() -> None:
    assert (channel(pair(), "k").depth, channel(forward(), "k").depth) == (6, 3)


def test_shared_memory_gives_a_pair_half_of_what_is_streamed() -> None:
    """Of 1536 bytes a cycle's time one CTA reads 512 of queries, 512 of keys, 512 of values."""
    shared = (prices_of(made).total("shared") for made in (forward(), pair()))
    assert tuple(shared) == (1536, 1024)


def test_what_a_joint_operation_waits_for_is_told_to_the_leader_by_both() -> None:
    made = pair()
    assert channel(made, "p_head[0]").full == Arrivals(8, "threads", at="leader")
    assert channel(made, "k").full == Arrivals(2, "tma", 2 * 16384, at="leader")


def test_what_a_joint_operation_signals_is_told_to_each() -> None:
    made = pair()
    assert channel(made, "s[0]").full == channel(made, "k").empty == Arrivals(1, "tensor", at="each")


def test_what_stays_in_a_cta_is_told_there() -> None:
    assert channel(pair(), "scale[0]").full == Arrivals(4, "threads")


@pytest.mark.parametrize("trips", [(0,), (1,), (5,), (0, 0, 1), (3, 0, 2, 0, 0, 1, 5, 1)])
def test_both_ctas_find_every_value_in_place(trips: tuple[int, ...]) -> None:
    made = pair()
    prices = prices_of_both(made, prices_of(made))
    assert all(simulate(both(made), prices, trips, jitter=3.0 * seed, seed=seed).is_fine for seed in range(3))


def separate(item: Operation) -> Operation:
    """The scores of the first query tile, made by each CTA for itself."""
    return replace(item, joint=False) if item.name == "mma_qk[0]" else item


CORRUPTIONS: dict[str, tuple[str, Callable[[Draft], Draft]]] = {
    "leader waits for its own probabilities alone": (
        "arrivals", lambda d: with_channel(d, "p_tail", full=Arrivals(4, "threads", at="leader")),
    ),
    "leader's barrier is not the one that is signalled": (
        "barrier-place", lambda d: with_channel(d, "p_tail", full=Arrivals(8, "threads")),
    ),
    "leader expects its own bytes alone": ("bytes", lambda d: with_channel(d, "k", full=Arrivals(2, "tma", 16384, "leader"))),
    "leader announces for both": ("arrivals", lambda d: with_channel(d, "v", full=Arrivals(1, "tma", 32768, "leader"))),
    "scores told to the leader alone": ("barrier-place", lambda d: with_channel(d, "s", full=Arrivals(1, "tensor"))),
    "keys given back to the leader alone": ("barrier-place", lambda d: with_channel(d, "k", empty=Arrivals(1, "tensor"))),
    "statistics sent to the leader": (
        "arrivals", lambda d: with_channel(d, "scale", full=Arrivals(8, "threads", at="leader")),
    ),
    "operations of one CTA": ("choices", lambda d: replace(d, choices=replace(d.choices, cta_group=1))),
    "graph of one CTA": ("choices", lambda d: with_graph(d, lambda graph: replace(graph, ctas=1))),
    "a role with joint operations and others": (
        "arrivals", lambda d: with_graph(d, lambda g: replace(g, operations=tuple(map(separate, g.operations)))),
    ),
    "scores before the product that still needs P": (
        "edge-without-channel", lambda d: with_program(d, "mma", lambda p: [p[at] for at in (2, 0, 1, 5, 3, 4)]),
    ),
    "empty of keys and values dropped": (
        "not-implied", lambda d: with_channel(with_channel(d, "k", empty=None, implied_by="s"), "v", empty=None, implied_by="s"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_schedule_of_a_pair_is_refused_by_name(name: str) -> None:
    rule, corrupt = CORRUPTIONS[name]
    with pytest.raises(ScheduleError) as refusal:
        verified(corrupt(pair()))
    assert refusal.value.name == rule, refusal.value


def test_a_role_with_joint_operations_and_others_stands_for_no_block() -> None:
    with pytest.raises(ScheduleError, match="pair-roles: mma runs joint operations"):
        both(with_graph(pair(), lambda graph: replace(graph, operations=tuple(map(separate, graph.operations)))))


def test_one_cta_is_chosen_where_l2_keeps_up() -> None:
    variant = analysed(128)
    assert choose_ctas(variant, LIMITS) == 1
    assert "CTAs a work tile: 2, as asked; the model would choose 1" in explain_ctas(variant, LIMITS, 2)


def test_a_pair_is_chosen_where_loads_bound_a_step() -> None:
    """A chip with four times the tensor core, exponentials and latencies' share of a step would wait for L2."""
    fast = replace(LIMITS, tensor_flops=8 * 8192, exponentials=16 * 16, fma_lanes=8 * 128, alu_lanes=8 * 64)
    assert choose_ctas(analysed(192, 128), fast) == 2


def test_wide_heads_are_refused_with_their_statement() -> None:
    variant = analysed(256)
    with pytest.raises(Unsupported, match=r"`head_dim 256` cannot run .* up to 192, 128; one CTA"):
        place(draw(variant, "forward", ctas=2), variant, LIMITS)


def test_hopper_has_no_pairs() -> None:
    assert choose_ctas(analysed(128), HOPPER) == 1
