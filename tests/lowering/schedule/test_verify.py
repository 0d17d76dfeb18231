"""Corrupt one field of a valid schedule and expect the refusal that names it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.graph import Value
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Arrivals, Draft, ProgramStep, Uses

from attnspec.language.diagnostics import InternalError
from tests.lowering.schedule.drafts import (
    channel,
    forward,
    verified,
    with_channel,
    with_graph,
    with_placement,
    with_program,
    with_role,
    without_channel,
)


def two_slots(made: Draft) -> Draft:
    """The K and V ring with two slots, which is valid."""
    return with_placement(with_channel(with_channel(made, "k", depth=2), "v", depth=2), "kv", depth=2)


def one_slot(made: Draft) -> Draft:
    return with_placement(with_channel(with_channel(made, "k", depth=1), "v", depth=1), "kv", depth=1)


def reordered(*places: int) -> Callable[[list[ProgramStep]], list[ProgramStep]]:
    return lambda program: [program[place] for place in places]


def staged(stages: dict[str, int]) -> Callable[[list[ProgramStep]], list[ProgramStep]]:
    return lambda program: [replace(step, stage=stages.get(step.operation, step.stage)) for step in program]


def without_empty(made: Draft, *names: str) -> Draft:
    for name in names:
        made = with_channel(made, name, empty=None, implied_by="nothing")
    return made


def joined(made: Draft, one: str, other: str) -> Draft:
    """Two channels of every step in one ring, in turn."""
    return with_channel(with_channel(made, one, ring=other, uses=Uses(2, 0, 0)), other, uses=Uses(2, 0, 1))


def twice(made: Draft) -> Draft:
    return replace(made, channels=(*made.channels, made.channels[0]))


def invented(made: Draft) -> Draft:
    name, producer, consumers = "invented", "exp_tail[0]", ("exp_head[1]",)
    extra = replace(channel(made, "p_tail[0]"), name=name, ring=name, producer=producer, consumers=consumers, buffer=None)
    return replace(made, channels=(*made.channels, extra))


def circular(made: Draft) -> Draft:
    extra = Value("row_sum[0]", "load_s[0]", "row")
    return with_graph(made, lambda graph: replace(graph, values=(*graph.values, extra)))


def unplaced(made: Draft) -> Draft:
    return replace(made, placements=tuple(item for item in made.placements if item.buffer != "stats"))


MMA_QK_FIRST = reordered(2, 0, 1, 5, 3, 4)

CORRUPTIONS: dict[str, tuple[str, Callable[[Draft], Draft]]] = {
    # programs and roles
    "operation left out": ("operation-missing", lambda d: with_program(d, "softmax0", lambda p: p[:-1])),
    "operation run twice": ("operation-twice", lambda d: with_program(d, "load", lambda p: [*p, p[1]])),
    "operation unknown": ("operation-unknown", lambda d: with_program(d, "load", lambda p: [*p, ProgramStep("load_w")])),
    "softmax programs differ": ("role-kind", lambda d: with_program(d, "softmax1", reordered(0, 1, 2, 4, 3, 5, 6, 7))),
    "softmax programs swapped": (
        "role-kind",
        lambda d: with_role(
            with_role(d, "softmax0", program=d.roles[1].program), "softmax1", program=d.roles[0].program
        ),
    ),
    "exponentials before scores": (
        "program-order",
        lambda d: with_program(
            with_program(d, "softmax0", reordered(5, 0, 1, 2, 3, 4, 6, 7)), "softmax1", reordered(5, 0, 1, 2, 3, 4, 6, 7)
        ),
    ),
    "correction over two warpgroups": ("role-warps", lambda d: with_role(d, "correction", warps=(7, 8, 9, 10))),
    "warp in two roles": ("role-warps", lambda d: with_role(d, "load", warps=(12,))),
    "too few threads": ("role-warps", lambda d: replace(d, threads=480)),
    "loads issued by the tensor warp": (
        "role-engines",
        lambda d: with_role(
            with_role(d, "mma", program=(*d.roles[4].program, *d.roles[3].program)), "load", program=()
        ),
    ),
    "no operation at stage 0": ("stage", lambda d: with_program(d, "mma", lambda p: [replace(step, stage=1) for step in p])),
    "role with operations of a tile rolls": ("stage", lambda d: with_role(d, "load", rolls=True)),
    "operation of a tile lags": ("stage", lambda d: with_program(d, "load", staged({"load_q[0]": 1}))),
    "product in the stage of its scores": (
        "deadlock",
        lambda d: with_program(d, "mma", staged({f"mma_pv_{half}[{i}]": 0 for half in ("head", "tail") for i in (0, 1)})),
    ),
    "tail of P before its head": ("program-order", lambda d: with_program(d, "mma", staged({"mma_pv_tail[0]": 0}))),
    "scores before the product that still needs P": ("edge-without-channel", lambda d: with_program(d, "mma", MMA_QK_FIRST)),
    "values loaded before keys": ("deadlock", lambda d: with_program(two_slots(d), "load", reordered(0, 3, 2, 1))),
    # channels
    "channel of keys dropped": ("ring-uses", lambda d: without_channel(d, "k")),
    "channel of keys dropped, values alone in the ring": (
        "edge-without-channel",
        lambda d: with_channel(without_channel(d, "k"), "v", uses=Uses(1, 0)),
    ),
    "channel of scores dropped": ("edge-without-channel", lambda d: without_channel(d, "s[0]")),
    "channel of row sums dropped": (
        "edge-without-channel",
        lambda d: with_channel(without_channel(d, "row[1]"), "scale[1]", uses=Uses(1, 0)),
    ),
    "channel of factors dropped": (
        "edge-without-channel",
        lambda d: with_channel(without_channel(d, "scale[0]"), "row[0]", uses=Uses(0, 1)),
    ),
    "channel of the rescaled output dropped": ("edge-without-channel", lambda d: without_channel(d, "rescaled[0]")),
    "channel of the finished output dropped": ("edge-without-channel", lambda d: without_channel(d, "o[0]")),
    "empty of keys and values dropped": ("not-implied", lambda d: without_empty(d, "k", "v")),
    "empty of keys alone dropped": ("ring-arrivals", lambda d: without_empty(d, "k")),
    "empty of queries dropped": ("not-implied", lambda d: without_empty(d, "q")),
    "empty of statistics dropped": ("not-implied", lambda d: without_empty(d, "scale", "row")),
    "empty of the staged output dropped": ("not-implied", lambda d: without_empty(d, "out")),
    "no reason for a missing empty": ("implied-by", lambda d: with_channel(d, "s[0]", implied_by="")),
    "one arrival too few": ("arrivals", lambda d: with_channel(d, "p_head[0]", full=Arrivals(3, "threads"))),
    "one arrival too many": ("arrivals", lambda d: with_channel(d, "rescaled[1]", full=Arrivals(5, "threads"))),
    "one release too many": ("arrivals", lambda d: with_channel(d, "k", empty=Arrivals(2, "tensor"))),
    "commit instead of arrivals": ("arrivals", lambda d: with_channel(d, "p_tail[0]", full=Arrivals(4, "tensor"))),
    "bytes of half a tile": ("bytes", lambda d: with_channel(d, "v", full=Arrivals(1, "tma", 16384))),
    "bytes expected of warps": ("bytes", lambda d: with_channel(d, "out", full=Arrivals(4, "threads", 128))),
    "one slot for keys and values": ("deadlock", one_slot),
    "depths of a ring differ": ("ring-depth", lambda d: with_channel(d, "v", depth=2)),
    "more slots than copies": ("ring-depth", lambda d: with_placement(d, "kv", depth=2)),
    "no slots": ("ring-depth", lambda d: with_channel(d, "out", depth=0)),
    "values in the turn of keys": ("ring-uses", lambda d: with_channel(d, "v", uses=Uses(2, 0, 0))),
    "uses with a gap": ("ring-uses", lambda d: with_channel(d, "s", uses=Uses(2, 0))),
    "uses that forget the row sum": ("ring-uses", lambda d: with_channel(d, "scale", uses=Uses(1, 0))),
    "uses from one": ("ring-uses", lambda d: with_channel(d, "o", uses=Uses(0, 1, 1))),
    "queries used every step": ("uneven-uses", lambda d: with_channel(d, "q", once_a_tile=False)),
    "scores used once a tile": ("uneven-uses", lambda d: with_channel(d, "s", once_a_tile=True)),
    "consumers out of order": ("consumer-order", lambda d: with_channel(d, "k", consumers=("mma_qk[1]", "mma_qk[0]"))),
    "consumers in two roles": ("channel-ends", lambda d: with_channel(d, "k", consumers=("mma_qk[0]", "load_s[0]"))),
    "channel to nowhere": ("channel-ends", lambda d: with_channel(d, "s[0]", consumers=("load_t[0]",))),
    "channel without an edge": ("channel-without-edge", invented),
    "channel of another step": ("channel-without-edge", lambda d: with_channel(d, "p_head[0]", distance=1)),
    "last reader not waited for": ("unordered", lambda d: with_channel(d, "k", consumers=("mma_qk[0]",))),
    "channel twice": ("channel-twice", twice),
    "rings of two buffers joined": ("ring-buffer", lambda d: joined(d, "p_head[0]", "rescaled[0]")),
    "rings of two roles joined": ("ring-roles", lambda d: joined(d, "p_head[0]", "p_head[1]")),
    # places and budgets
    "keys over queries": ("overlap", lambda d: with_placement(d, "kv", offset=32768)),
    "probabilities own their place": ("overlap", lambda d: with_placement(d, "p", overlays=None)),
    "probabilities reach into the output": ("overlap", lambda d: with_placement(d, "p", offset=96)),
    "probabilities over the scores of the other query tile": ("unordered", lambda d: with_placement(d, "p", offset=0, stride=64)),
    "copies overlap": ("overlap", lambda d: with_placement(d, "s", stride=64)),
    "output beyond tensor memory": ("tensor-columns", lambda d: with_placement(d, "o", offset=320)),
    "too few columns allocated": ("tensor-columns", lambda d: replace(d, tensor_columns=256)),
    "columns not a power of two": ("tensor-columns", lambda d: replace(d, tensor_columns=500)),
    "tile off its swizzle": ("alignment", lambda d: with_placement(d, "stats", offset=229376 + 8)),
    "buffer without a place": ("placement-missing", unplaced),
    "place too small": ("placement-size", lambda d: with_placement(d, "stats", size=512)),
    "one staging copy for two rings": ("unordered", lambda d: with_placement(d, "o_out", depth=1)),
    "more shared memory than there is": ("shared-bytes", lambda d: replace(d, shared_bytes=LIMITS.shared_bytes + 8)),
    "barriers forgotten": ("shared-bytes", lambda d: replace(d, shared_bytes=231424)),
    "registers beyond the pool": ("registers", lambda d: with_role(d, "correction", registers=88)),
    "registers not in eights": ("registers", lambda d: with_role(d, "correction", registers=76)),
    "registers beyond a thread": ("registers", lambda d: with_role(d, "correction", registers=264)),
    "warpgroup of two minds": ("registers", lambda d: with_role(d, "load", registers=40)),
    # graph and choices
    "graph in a circle": ("cycle", circular),
    "P split elsewhere": ("choices", lambda d: replace(d, choices=replace(d.choices, probability_split=64))),
    "no row maximum": ("choices", lambda d: replace(d, choices=replace(d.choices, needs_row_max=False))),
}  # fmt: skip


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_schedule_is_refused_by_name(name: str) -> None:
    rule, corrupt = CORRUPTIONS[name]
    with pytest.raises(ScheduleError) as refusal:
        verified(corrupt(forward()))
    assert refusal.value.name == rule, refusal.value


def test_barrier_that_a_late_waiter_could_miss_is_refused() -> None:
    turn = Value("exp_tail[0]", "exp_head[1]", None)
    made = with_channel(forward(edges=[turn]), "exp_tail_0_to_exp_head_1", empty=None, implied_by="s[0]")
    with pytest.raises(ScheduleError, match=r"parity: .* can signal exp_tail_0_to_exp_head_1 again") as refusal:
        verified(made)
    assert refusal.value.name == "parity"


def test_two_slots_for_keys_and_values_are_enough() -> None:
    assert verified(two_slots(forward())).placement("kv").depth == 2


def test_refusal_of_a_deadlock_names_who_waits_for_whom() -> None:
    with pytest.raises(ScheduleError, match=r"deadlock: each waits .* issue of load_v\(0\)"):
        verified(with_program(one_slot(forward()), "load", reordered(0, 3, 2, 1)))


def test_order_of_the_tensor_pipe_is_listed_as_an_assumption() -> None:
    assumed = verified(forward()).proof.assumptions
    assert len(assumed) == 4
    assert all("mma_pv" in text and "mma_qk" in text for text in assumed)


def test_verified_schedule_cannot_be_changed() -> None:
    with pytest.raises(InternalError, match="changed after it had been verified"):
        replace(verified(forward()), threads=384)
