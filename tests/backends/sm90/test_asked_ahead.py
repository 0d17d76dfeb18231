"""Three warpgroups without a mask ask in each trip whether the keys and values of the next are there; in the emulator."""

from typing import Any
from unittest.mock import patch

import pytest
import torch
from attnspec.backends.sm90.kernel.roles import attend
from attnspec.emulator.report import FaultsFound
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.emulation import emulation
from cutlass import Int32

import attnspec
from attnspec import stages

TEXT = "attention dense\nhead_dim 64\n"
SHAPE = Shape(1, 2, 1, 200, 1100)  # nine steps of a ring of eight


def results(seeds: tuple[int | None, ...]) -> list[torch.Tensor]:
    """Of a kernel that is compiled anew."""
    attention = attnspec.build(TEXT, target="sm90", on="emulator")
    inputs = draw_inputs(attention.spec, SHAPE, 2)
    found = []
    with patch.dict(stages._kernels, clear=True):
        for seed in seeds:
            with emulation(seed):
                found.append(attention(inputs.q, inputs.k, inputs.v))
    return found


def answer(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(attend, "are_full", lambda *_: Int32(number))


@pytest.mark.parametrize("seeds", [(None, 1), pytest.param(tuple(range(2, 10)), marks=pytest.mark.slow)])
def test_bits_are_those_of_kernels_that_never_ask(seeds: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = results(seeds)
    answer(monkeypatch, 0)
    (waited,) = results((0,))
    assert all(torch.equal(one, waited) for one in asked)
    expected = torch.nn.functional.scaled_dot_product_attention(*_inputs()).transpose(1, 2)
    # bf16 has 8 bits: half a step of an output, and of the probabilities that make it.
    assert (waited.double() - expected).abs().max() < 2**-8 * expected.abs().max()


def _inputs() -> Any:
    inputs = draw_inputs(attnspec.build(TEXT, target="sm90", on="emulator").spec, SHAPE, 2)
    q, k, v = (one.double().transpose(1, 2) for one in (inputs.q, inputs.k, inputs.v))
    heads = q.shape[1]
    return q, k.expand(-1, heads, -1, -1), v.expand(-1, heads, -1, -1)


def test_an_answer_that_is_not_true_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 1)
    with pytest.raises(FaultsFound, match="race-shared"):
        results((0, 1, 2, 3))
