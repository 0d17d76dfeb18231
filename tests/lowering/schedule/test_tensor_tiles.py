"""Tiles of tensors in shared memory: a slot of each query tile's own where two fit, else one that they use in turn."""

from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.forward import NO_TILES, TensorTiles
from attnspec.lowering.dataflow.tensor_tiles import tiles_of
from attnspec.lowering.schedule.choose_tiles import choose_tiles
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.place import draft, place
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.simulate import Simulation, simulate
from attnspec.lowering.schedule.verify import verify

from attnspec import stages
from tests.lowering.schedule.drafts import with_placement, with_program, without_channel

HEAD = "attention tiled\nhead_dim {}\n"
BIAS = "input bias: {}[len_q, len_kv]\nscore = score + bias[q, kv]\n"
TWO = "input a: {}[len_q, len_kv]\ninput gain: {}[len_q, len_kv]\nscore = score + a[q, kv] * gain[q, kv]\n"
KEYED = "input bias: {}[len_q, len_kv]\ninput gain: f32[len_kv]\nscore = score + bias[q, kv] * gain[kv]\n"
OWN, IN_TURN = TensorTiles(1), TensorTiles(1, in_turn=True)
SEQUENCES = [(0,), (1,), (2,), (5,), (0, 0, 1), (3, 0, 2, 0, 0, 1, 5, 1)]


def read(text: str, dims: str) -> Analysed:
    return stages.analyse(stages.read(HEAD.format(dims) + text))


def drafted(text: str, dims: str) -> tuple[Analysed, Draft]:
    analysed = read(text, dims)
    return analysed, draft(draw(analysed, "forward", tiles=choose_tiles(analysed, LIMITS)), analysed, LIMITS)


def run(analysed: Analysed, made: Draft, trips: tuple[int, ...], jitter: float, seed: int) -> Simulation:
    return simulate(made, price(made.dataflow, analysed, made.choices, LIMITS), trips, jitter=jitter, seed=seed)


@pytest.mark.parametrize(
    ("text", "dims", "expected"),
    [
        (BIAS.format("f32"), "64", OWN),
        *((BIAS.format("f32"), str(dim), IN_TURN) for dim in range(72, 129, 8)),
        (BIAS.format("f32"), "136", OWN),  # one query tile
        (KEYED.format("f32"), "64", OWN),
        (KEYED.format("f32"), "128", TensorTiles(1, in_turn=True, alone=True)),
        (KEYED.format("bf16"), "128", IN_TURN),
        (BIAS.format("bf16"), "128", OWN),
        (BIAS.format("bf16"), "192, 128", NO_TILES),
        (BIAS.format("bool").replace("score + bias[q, kv]", "score\nmask = bias[q, kv]"), "192, 128", IN_TURN),
        (TWO.format("bf16", "bf16"), "64", TensorTiles(2)),
        (TWO.format("f32", "f32"), "64", TensorTiles(2, in_turn=True)),
        (TWO.format("bf16", "bf16"), "128", TensorTiles(2, in_turn=True)),
        (TWO.format("f32", "bf16"), "128", IN_TURN),
    ],
)
def test_one_slot_in_turn_is_better_than_none_and_worse_than_two(text: str, dims: str, expected: TensorTiles) -> None:
    assert choose_tiles(read(text, dims), LIMITS) == expected


def test_values_of_keys_that_have_no_room_beside_a_tile_are_not_staged() -> None:
    for dtype, is_staged in (("f32", False), ("bf16", True)):
        _, made = drafted(KEYED.format(dtype), "128")
        assert any(item.buffer == "staged" for item in made.placements) == is_staged
        assert tiles_of(made.dataflow) == choose_tiles(read(KEYED.format(dtype), "128"), LIMITS)


def test_query_tiles_hand_one_slot_to_each_other_and_need_no_empty_barriers() -> None:
    _, made = drafted(BIAS.format("f32"), "128")
    assert made.placement("tile0").depth == 1
    orders = {item.name: item.distance for item in made.channels if "to_load_tile0" in item.name}
    assert orders == {"mask_0_to_load_tile0_1": 0, "mask_1_to_load_tile0_0": 1}
    assert {item.empty for item in made.channels if item.buffer == "tile0"} == {None}


@pytest.mark.parametrize(("dims", "cycles"), [("128", 2948), ("80", 2564)])
def test_a_step_waits_no_longer_for_one_slot_than_for_two(dims: str, cycles: int) -> None:
    """Half the bytes in tiles of 16 bits, which have two slots; the model takes a load to last as long."""
    one, two = (read(BIAS.format(dtype), dims) for dtype in ("f32", "bf16"))
    intervals = [
        place(draw(analysed, "forward", tiles=choose_tiles(analysed, LIMITS)), analysed, LIMITS).proof.interval
        for analysed in (one, two)
    ]
    assert intervals == pytest.approx([cycles, cycles])


@pytest.mark.parametrize("trips", SEQUENCES)
@pytest.mark.parametrize(("text", "dims"), [(BIAS.format("f32"), "128"), (TWO.format("f32", "f32"), "64")])
def test_every_sequence_of_tiles_ends_with_every_value_in_place(text: str, dims: str, trips: tuple[int, ...]) -> None:
    analysed, made = drafted(text, dims)
    assert all(run(analysed, made, trips, 3.0 * seed, seed).is_fine for seed in range(3))


def broken(made: Draft) -> dict[str, Draft]:
    """Drafts in which the query tiles do not take turns."""
    return {
        "the second does not wait": without_channel(made, "mask_0_to_load_tile0_1"),
        "the first does not wait": without_channel(made, "mask_1_to_load_tile0_0"),
        "the second comes first": with_program(made, "load", lambda p: sorted(p, key=lambda s: s.operation != "load_tile0[1]")),
        "over the values": with_placement(made, "tile0", offset=made.placement("kv").offset),
    }


@pytest.mark.parametrize(
    "name", ["the second does not wait", "the first does not wait", "the second comes first", "over the values"]
)
def test_a_slot_that_is_not_used_in_turn_is_refused_and_goes_wrong(name: str) -> None:
    analysed, made = drafted(BIAS.format("f32"), "128")
    prices = price(made.dataflow, analysed, made.choices, LIMITS)
    verify(made, LIMITS, prices)
    wrong = broken(made)[name]
    with pytest.raises(ScheduleError):
        verify(wrong, LIMITS, prices)
    assert any(not run(analysed, wrong, (5, 1, 0, 3), jitter, seed).is_fine for jitter in (0.0, 3.0, 20.0) for seed in range(6))


def test_without_the_order_in_the_graph_there_is_none() -> None:
    """Lanes that are told nothing of each other would write over each other's tiles."""
    analysed = read(BIAS.format("f32"), "128")
    graph = draw(analysed, "forward", tiles=IN_TURN)
    values = tuple(value for value in graph.values if value.buffer is not None)
    made = draft(replace(graph, values=values), analysed, LIMITS)
    with pytest.raises(ScheduleError, match=r"tile0"):
        verify(made, LIMITS, price(graph, analysed, made.choices, LIMITS))
