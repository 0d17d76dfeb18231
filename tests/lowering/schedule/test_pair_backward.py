"""Two CTAs that share a work tile of the backward: what the graph says of it, what follows, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Literal

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.graph import Value
from attnspec.lowering.schedule.pair import both, prices_of_both
from attnspec.lowering.schedule.place import draft, place
from attnspec.lowering.schedule.refusal import ScheduleError, Unsupported
from attnspec.lowering.schedule.schedule import Arrivals, Draft
from attnspec.lowering.schedule.simulate import simulate
from attnspec.lowering.schedule.unroll import Occurrence, uses

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.drafts import (
    channel,
    prices_of,
    stretched,
    verified,
    with_channel,
    with_graph,
    with_placement,
    with_program,
    without_channel,
)

PAPER = 2688  # cycles of shared memory of a step, FA4 paper, table 3: M = 256, N = D = 128
DIMS = [(8, 8), (40, 40), (64, 64), (96, 96), (112, 112), (128, 128), (128, 64), (64, 128)]


@cache
def backward(head_dim: int = 128, head_dim_v: int | None = None, ctas: Literal[1, 2] = 2) -> Draft:
    variant = analysed(head_dim, head_dim_v)
    return draft(draw(variant, "backward", ctas=ctas), variant, LIMITS)


@pytest.mark.parametrize("dims", DIMS)
def test_every_head_dim_fits_and_is_verified(dims: tuple[int, int]) -> None:
    assert verified(backward(*dims)).shared_bytes <= LIMITS.shared_bytes


def test_shared_memory_is_busy_for_less_than_the_published_cycles() -> None:
    """Operands 1536, dS written once, wherever it goes, 256, dQ written and read 512; the paper adds an exchange of 384."""
    one, two = (prices_of(backward(ctas=ctas)) for ctas in (1, 2))
    assert (one.total("shared"), two.total("shared"), two.total("tensor")) == (3328, 2304, 2560)
    assert two.total("shared") <= PAPER


def test_a_pair_adds_half_as_many_bytes_to_the_sum_of_dq() -> None:
    """Of each CTA and step, which has as many keys and queries of its own in either form."""

    def added(made: Draft) -> int:
        chunks = sum(operation.kind.startswith("reduce_dq") for operation in made.dataflow.operations)
        return chunks * made.placement("dq_out").size

    assert (added(backward(ctas=1)), added(backward())) == (65536, 32768)


def test_half_of_dq_lies_beside_p() -> None:
    made = backward()
    places = {name: made.placement(name) for name in ("s", "p", "dq")}
    assert {name: (place.offset, place.size, place.overlays) for name, place in places.items()} == {
        "s": (0, 128, None), "p": (0, 64, "s"), "dq": (64, 64, "s"),
    }  # fmt: skip


def test_dq_holds_up_no_product_of_its_own_step() -> None:
    """It comes when the next scores have been read, and has until the scores after those."""
    made = backward()
    read, drained = channel(made, "scores_read"), channel(made, "drained")
    assert (read.producer, read.consumers, read.distance) == ("load_s", ("mma_dq",), -1)
    assert (drained.producer, drained.consumers, drained.distance) == ("load_dq_0", ("mma_s",), 2)
    assert verified(made).proof.interval < 0.9 * verified(backward(ctas=1)).proof.interval


def test_order_without_data_ends_with_its_tile() -> None:
    """In tiles of three steps and of one: a tile's first scores wait for all of the tile before, its last dQ for no scores."""
    made = backward()
    flow = made.dataflow

    def waits(name: str) -> dict[int, list[Occurrence | None]]:
        return {use.n: [use.wait, use.again] for use in uses(flow, made.roles, channel(made, name), (3, 1))}

    scores = [Occurrence("mma_s", 0, 2), Occurrence("mma_s", 1, 3)]
    assert waits("drained") == {0: [scores[0], None], 1: [None, None], 2: [scores[1], None], 3: [None, None]}
    dq = [Occurrence("mma_dq", 0, 0), Occurrence("mma_dq", 0, 1)]
    assert waits("scores_read") == {0: [None, None], 1: [dq[0], None], 2: [dq[1], None], 3: [None, None]}


def test_half_of_ds_is_left_in_each_cta() -> None:
    made = backward()
    (crossing,) = [value for value in made.dataflow.values if value.spreads]
    found = [value for value in both(made).dataflow.values if value.name == crossing.name]
    assert {(value.producer, value.buffer, value.part) for value in found} == {
        (f"share_ds@{cta}", f"ds_out@{other}", (cta * 16384, cta * 16384 + 16384)) for cta in (0, 1) for other in (0, 1)
    }
    assert channel(made, "ds_out").full == Arrivals(16, "threads", at="leader")


def test_what_no_product_of_both_takes_stays_in_its_cta() -> None:
    assert channel(backward(), "rows").full == Arrivals(1, "tma", 1024)


@pytest.mark.parametrize("dims", [(128, 128), (64, 64)])
@pytest.mark.parametrize("trips", [(0,), (1,), (5,), (0, 0, 1), (3, 0, 2, 0, 0, 1, 5, 1)])
def test_both_ctas_find_every_value_in_place(dims: tuple[int, int], trips: tuple[int, ...]) -> None:
    """Each operation stretched at random, but for all its warps alike: the simulator knows of no halves of a tile's columns."""
    made = backward(*dims)
    prices = prices_of_both(made, prices_of(made))
    for seed in range(4):
        assert simulate(both(made), stretched(prices, seed), trips).is_fine


@pytest.mark.parametrize("name", [item.name for item in backward().channels])
def test_schedule_without_a_hand_over_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError):
        verified(without_channel(backward(), name))


@pytest.mark.parametrize("name", [item.name for item in backward().channels if item.empty])
def test_slots_that_are_not_given_back_are_refused(name: str) -> None:
    made = backward()
    for item in made.channels:
        if item.ring == channel(backward(), name).ring:
            made = with_channel(made, item.name, empty=None, implied_by="a guess")
    with pytest.raises(ScheduleError):
        verified(made)


def without(name: str) -> Callable[[tuple[Value, ...]], tuple[Value, ...]]:
    return lambda values: tuple(value for value in values if value.name != name)


CORRUPTIONS: dict[str, tuple[str, Callable[[Draft], Draft]]] = {
    "leader waits for its own dS alone": (
        "arrivals", lambda d: with_channel(d, "ds_out", full=Arrivals(8, "threads", at="leader")),
    ),
    "dS told to its own CTA": ("barrier-place", lambda d: with_channel(d, "ds_out", full=Arrivals(16, "threads"))),
    "dQ told to the leader alone": ("barrier-place", lambda d: with_channel(d, "dq", full=Arrivals(1, "tensor"))),
    "dQ beside nothing": ("unordered", lambda d: with_placement(d, "dq", offset=0)),
    "dS with no place in the other CTA": (
        "spreads",
        lambda d: with_graph(d, lambda g: replace(g, values=tuple(replace(v, part=None) if v.spreads else v for v in g.values))),
    ),
    "drained a step late": ("channel-without-edge", lambda d: with_channel(d, "drained", distance=1)),
    "dQ before the next scores": ("distance", lambda d: with_program(d, "mma", lambda p: [replace(s, stage=0) for s in p])),
    "orders given back": ("distance", lambda d: with_channel(d, "drained", empty=Arrivals(1, "tensor", at="each"))),
    "scores that need not be read": (
        "unordered",
        lambda d: without_channel(with_graph(d, lambda g: replace(g, values=without("scores_read")(g.values))), "scores_read"),
    ),
    "dQ that need not be drained": (
        "unordered",
        lambda d: without_channel(with_graph(d, lambda g: replace(g, values=without("drained")(g.values))), "drained"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_schedule_of_a_pair_is_refused_by_name(name: str) -> None:
    rule, corrupt = CORRUPTIONS[name]
    with pytest.raises(ScheduleError) as refusal:
        verified(corrupt(backward()))
    assert refusal.value.name == rule, refusal.value


def test_wide_heads_are_refused_with_what_asks_for_them() -> None:
    variant = analysed(192)
    with pytest.raises(Unsupported, match="`head_dim 192`"):
        place(draw(variant, "backward", ctas=2), variant, LIMITS)
