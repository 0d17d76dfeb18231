"""Channels follow from the edges of the graph: an edge more is a channel more."""

from dataclasses import replace

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.graph import Buffer, Operation, Value
from attnspec.lowering.schedule.add_barriers import generated_name
from attnspec.lowering.schedule.place import draft
from attnspec.lowering.schedule.schedule import Arrivals, Uses
from attnspec.lowering.schedule.simulate import simulate

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.drafts import channel, forward, prices_of, verified

TURN = Value("exp_tail[0]", "exp_head[1]", None)  # softmax 0 hands the exponentials to softmax 1 (FA3's ping-pong)
TURN_BACK = Value("exp_tail[1]", "exp_head[0]", None, distance=1)


def test_added_edge_becomes_a_channel_with_counts_from_its_roles() -> None:
    plain, turned = forward(), forward(edges=[TURN])
    added = {item.name for item in turned.channels} - {item.name for item in plain.channels}
    assert added == {"exp_tail_0_to_exp_head_1"}
    new = channel(turned, "exp_tail_0_to_exp_head_1")
    assert (new.producer, new.consumers, new.buffer, new.depth) == ("exp_tail[0]", ("exp_head[1]",), None, 1)
    assert (new.uses, new.full, new.empty) == (Uses(1, 0), Arrivals(4, "threads"), Arrivals(4, "threads"))


def test_schedule_with_an_added_edge_is_verified_and_runs() -> None:
    made = forward(edges=[TURN])
    assert verified(made).proof.interval >= verified(forward()).proof.interval
    assert simulate(made, prices_of(made), (3, 0, 1, 4), jitter=3.0).is_fine


def test_turns_both_ways_imply_each_other_s_reuse() -> None:
    made = forward(edges=[TURN, TURN_BACK])
    turns = [channel(made, generated_name(edge)) for edge in (TURN, TURN_BACK)]
    assert [turn.empty for turn in turns] == [None, None]
    assert turns[1].distance == 1
    assert verified(made)
    assert simulate(made, prices_of(made), (3, 0, 1, 4), jitter=3.0).is_fine


def test_added_operation_is_given_a_role_a_place_and_a_channel() -> None:
    """A row of key biases for each query tile, loaded every step and read by the mask."""
    graph = draw(analysed(), "forward")
    loads = tuple(Operation("load_bias", "tma", "step", tile) for tile in (0, 1))
    values = tuple(Value(f"load_bias[{tile}]", f"mask[{tile}]", "bias", name="bias") for tile in (0, 1))
    graph = replace(
        graph,
        operations=(*graph.operations, *loads),
        buffers=(*graph.buffers, Buffer("bias", "shared", 256)),
        values=(*graph.values, *values),
    )
    made = draft(graph, analysed(), LIMITS)
    new = channel(made, "bias[1]")
    assert (new.full, new.empty, new.depth) == (Arrivals(1, "tma", 256), Arrivals(4, "threads"), 1)
    assert verified(made).role_of("load_bias[1]").kind == "load"
    assert simulate(made, prices_of(made), (3, 0, 1, 4), jitter=3.0).is_fine


def test_edge_that_others_imply_adds_nothing() -> None:
    implied = Value("load_s[0]", "mma_pv_tail[0]", None)
    assert forward(edges=[implied]).channels == forward().channels


def test_edge_within_a_role_adds_nothing() -> None:
    assert forward(edges=[Value("row_max[0]", "row_sum[0]", None)]).channels == forward().channels


def test_output_of_a_step_reaches_the_correction_without_a_channel_of_its_own() -> None:
    """The scores that start a rescale are committed after the product before it, by the same warp."""
    assert not any(item.name.startswith("o_step") for item in forward().channels)


def test_generated_name_is_an_identifier() -> None:
    assert generated_name(TURN) == "exp_tail_0_to_exp_head_1"
    assert generated_name(TURN).isidentifier()
