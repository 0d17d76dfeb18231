"""A bounded score has no running maximum: its operations and hand-overs are not in the graph."""

from dataclasses import replace

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed, ElementCost
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.simulate import simulate

from tests.lowering.by_hand import DOUBLED, analysed


def bounded() -> Analysed:
    found = analysed(128, score=DOUBLED)
    return replace(found, bounds=replace(found.bounds, low=-30.0, high=30.0, needs_row_max=False))


def test_maximum_rescale_and_their_values_are_gone() -> None:
    graph = draw(bounded(), "forward")
    kinds = {operation.kind for operation in graph.operations}
    assert not kinds & {"row_max", "share_scale", "rescale"}
    assert not {value.name for value in graph.values} & {"scale", "rescaled", "o_step"}


def test_output_gets_an_empty_barrier_where_no_rescale_orders_it() -> None:
    schedule = place(draw(bounded(), "forward"), bounded(), LIMITS)
    channels = {channel.name: channel for channel in schedule.channels}
    assert channels["o[0]"].empty is not None
    assert channels["o[0]"].empty.count == 4
    assert "scale[0]" not in channels and "rescaled[0]" not in channels


def test_interval_is_shorter_without_the_maximum() -> None:
    with_maximum = place(draw(analysed(128, score=DOUBLED), "forward"), analysed(128, score=DOUBLED), LIMITS)
    without = place(draw(bounded(), "forward"), bounded(), LIMITS)
    assert without.proof.interval == with_maximum.proof.interval - 128


def test_bounded_schedule_runs_tiles_of_any_number_of_steps() -> None:
    schedule = place(draw(bounded(), "forward"), bounded(), LIMITS)
    simulate(schedule, schedule.proof.prices, (0, 1, 2, 0, 3, 5))


def test_step_takes_no_less_than_its_busiest_unit_works() -> None:
    costly = replace(bounded(), score_cost=ElementCost(2.0, 2.0, 0.0, 0.0))
    proof = place(draw(costly, "forward"), costly, LIMITS).proof
    assert proof.interval < proof.prices.total("mufu") == proof.step_cycles
