"""What the loading warp leaves of a tile's walk for those who attend: tiles one after another on one CTA, in the emulator."""

from typing import Any

import cutlass.cute as cute
import pytest
from attnspec.backends.sm90.kernel.blocks import board
from attnspec.emulator.report import FaultsFound
from attnspec.runtime import emulated_program
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.emulation import emulation

import attnspec

DOCUMENTS = (
    "attention documents\nhead_dim {}\ninput ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
    "mask = {}document(ids_q, ids_kv)\n"
)


@pytest.fixture(autouse=True)
def on_one_cta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_program, "CTAS", 1)


SOME = Shape(2, 1, 1, 300, 300)


def assert_right(text: str, seed: int | None, shape: Shape, are_strangers: bool = False) -> None:
    """are_strangers: no query is of a key's document, so that the loading warp has nothing to wait for."""
    attention = attnspec.build(text, target="sm90", on="emulator")
    inputs = draw_inputs(attention.spec, shape, 3)
    if are_strangers:
        inputs.tensors["ids_q"][:] = inputs.tensors["ids_kv"].max() + 1
    with emulation(seed):
        rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


@pytest.mark.parametrize("seed", [None, 1])
def test_tiles_read_what_was_left_for_them(seed: int | None) -> None:
    assert_right(DOCUMENTS.format(64, "causal and "), seed, SOME)


def test_places_of_tiles_without_keys_are_read_too() -> None:
    assert_right(DOCUMENTS.format(64, ""), 0, Shape(1, 2, 1, 600, 90), are_strangers=True)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "128", "192, 128", "256"])
@pytest.mark.parametrize("seed", range(6))
def test_every_timing_reads_what_was_left(dims: str, seed: int) -> None:
    """Some tiles see no key: their places are left and read like any other's."""
    assert_right(DOCUMENTS.format(dims, ""), seed, Shape(2, 2, 1, 500, 90))


@pytest.mark.slow
def test_a_slot_that_is_written_before_it_is_given_back_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    post, wait = board.post, cute.arch.mbarrier_wait

    def post_at_once(*given: Any) -> None:
        cute.arch.mbarrier_wait = lambda *_: None
        try:
            post(*given)
        finally:
            cute.arch.mbarrier_wait = wait

    monkeypatch.setattr(board, "post", post_at_once)
    text = DOCUMENTS.format(24, "").replace("attention documents", "attention unguarded")  # of no other test
    with pytest.raises(FaultsFound, match="race-shared"):
        for seed in range(4):
            assert_right(text, seed, Shape(1, 2, 1, 600, 90), are_strangers=True)
