"""The schedule runs on barriers as hardware has them, whatever the lengths of tiles and the timing."""

import pytest
from attnspec.lowering.schedule.schedule import Arrivals, Draft
from attnspec.lowering.schedule.simulate import Simulation, simulate

from tests.lowering.schedule.drafts import forward, prices_of, with_channel, with_placement, with_program

SEQUENCES = [(0,), (1,), (2,), (3,), (5,), (0, 0, 1), (3, 0, 2, 0, 0, 1, 5, 1)]


def run(made: Draft, trips: tuple[int, ...], jitter: float = 0.0, seed: int = 0) -> Simulation:
    return simulate(made, prices_of(made), trips, jitter=jitter, seed=seed)


@pytest.mark.parametrize("dims", [(64, 64), (128, 128), (192, 128)])
@pytest.mark.parametrize("trips", SEQUENCES)
def test_every_sequence_of_tiles_ends_with_every_value_in_place(dims: tuple[int, int], trips: tuple[int, ...]) -> None:
    made = forward(*dims)
    for seed in range(3):
        assert run(made, trips, jitter=3.0 * seed, seed=seed).is_fine


def test_tile_without_steps_still_finishes_and_stores() -> None:
    operations = {occurrence.operation for occurrence in run(forward(), (0,)).starts}
    assert operations == {f"{kind}[{i}]" for kind in ("share_row", "finish", "store_o") for i in (0, 1)}


def broken(made: Draft) -> dict[str, Draft]:
    """Drafts that `verify` refuses for their order."""
    one_slot = with_placement(with_channel(with_channel(made, "k", depth=1), "v", depth=1), "kv", depth=1)
    return {
        "slots reused too soon": with_channel(with_channel(made, "k", empty=None), "v", empty=None),
        "one slot": one_slot,
        "scores over P": with_program(made, "mma", lambda p: [p[2], p[0], p[1], p[5], p[3], p[4]]),
        "arrival too many": with_channel(made, "p_head", full=Arrivals(5, "threads")),
        "arrival too few": with_channel(made, "p_tail", full=Arrivals(3, "threads")),
        "bytes too many": with_channel(made, "k", full=Arrivals(1, "tma", 40000)),
        "statistics overwritten": with_channel(with_channel(made, "scale", empty=None), "row", empty=None),
        "one copy of the output for two": with_placement(made, "o_out", depth=1),
        "P over other scores": with_placement(made, "p", offset=0, stride=64),
    }


@pytest.mark.parametrize("name", broken(forward()))
def test_what_verify_refuses_goes_wrong_on_the_machine(name: str) -> None:
    made = broken(forward())[name]
    runs = (run(made, (5, 1, 0, 3), jitter, seed) for jitter in (0.0, 3.0, 20.0) for seed in range(6))
    assert any(not one.is_fine for one in runs)


def test_deadlock_says_who_waits_for_which_use() -> None:
    stuck = run(broken(forward())["one slot"], (2,)).stuck
    assert any("load warp 0 is at load_k(1) and waits for empty of k, use 2" in text for text in stuck)
