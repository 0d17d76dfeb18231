"""Wide heads, whose output is staged over the queries: tiles of every length one after another on one CTA, in the emulator."""

from typing import Any

import pytest
from attnspec.backends.sm90.emit import module
from attnspec.backends.source import Source
from attnspec.emulator.report import FaultsFound
from attnspec.runtime import emulated_program
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape, starts
from attnspec.runtime.emulation import emulation

import attnspec

# Rows and keys of packed sequences, a work tile or two each: of no key tile, of one, of odd and even numbers of them.
ROWS = [130, 1, 200, 5, 256, 3, 7, 140, 1, 9]
KEYS = [417, 0, 100, 128, 0, 0, 300, 129, 1, 0]
SHORT = [1, 3, 1, 2, 5], [65, 0, 1, 0, 130]
DIMS = ("256", "192, 128", "192", "136, 200")


@pytest.fixture(autouse=True)
def on_one_cta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_program, "CTAS", 1)


def built(head_dim: str, more: str = "") -> attnspec.Attention:
    return attnspec.build(f"attention wide\nhead_dim {head_dim}\n{more}", target="sm90", on="emulator")


def packed(attention: attnspec.Attention, rows: list[int], keys: list[int]) -> Inputs:
    drawn = draw_inputs(attention.spec, Shape(1, 1, 1, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    return Inputs(drawn.q, drawn.k, drawn.v, {}, drawn.dout, drawn.dlse, ends)


def assert_right(attention: attnspec.Attention, inputs: Inputs, seed: int | None) -> None:
    with emulation(seed):
        rows = compare(attention, inputs, forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def test_short_tiles_and_empty_ones_follow_one_another() -> None:
    attention = built("256", "varlen\n")
    assert_right(attention, packed(attention, *SHORT), 1)


@pytest.mark.slow
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("more", ["", "mask = kv <= qpos\n"], ids=["dense", "causal"])
def test_tiles_of_every_length_follow_one_another(dims: str, more: str) -> None:
    attention = built(dims, "varlen\n" + more)
    for seed, (rows, keys) in enumerate([(ROWS, KEYS), (ROWS[::-1], KEYS[::-1]), ([1, 1, 1, 1], [1, 1, 0, 1])]):
        assert_right(attention, packed(attention, rows, keys), seed)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["256", "192, 128"])
@pytest.mark.parametrize("place", [5, 399])  # 399: the last of a tile of 80 keys, in a mask word that is half full
def test_tiles_are_done_a_second_time(dims: str, place: int) -> None:
    """An infinity in a masked value: all roles meet when the tiles are done, and some tiles are done again."""
    attention = built(dims, "mask = kv <= q\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 400, 400))
    inputs.v[0, place, 0, 3] = float("inf")
    assert_right(attention, inputs, place)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        "dtype fp16\nmask = (kv <= q) and (q - kv < 100)\n",
        "score = softcap(score, 30.0)\nmask = kv <= qpos\n",
        "learned bias: f32[heads, 65]\nscore = score + bias[h, clamp(q - kv, -32, 32) + 32]\nmask = kv <= qpos\n",
        "input keep: bool[batch, len_kv]\nmask = keep[b, kv] and kv <= qpos\n",
    ],
    ids=["fp16", "bounded", "distances", "keys"],
)
@pytest.mark.parametrize("dims", ["256", "192", "192, 128"])
def test_variant_of_a_wide_head_is_right(dims: str, more: str) -> None:
    attention = built(dims, more)
    for seed in (None, 3):
        assert_right(attention, draw_inputs(attention.spec, fit_shape(attention.spec, Shape(1, 2, 1, 500, 300))), seed)


@pytest.mark.slow
def test_queries_that_do_not_wait_for_the_output_are_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    write = module.write_pipes

    def without_room(source: Source, schedule: Any) -> None:
        whole = Source()
        write(whole, schedule)
        for line in str(whole).splitlines():
            if "Pipe('room'" not in line:
                source.line(line)

    monkeypatch.setattr(module, "write_pipes", without_room)
    attention = built("248", "varlen\n")
    with pytest.raises(FaultsFound, match="race-shared"):
        assert_right(attention, packed(attention, ROWS, KEYS), 0)
