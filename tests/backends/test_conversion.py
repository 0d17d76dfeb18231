"""Ints as floats: what elements of a thread share is converted once, and large numbers lose nothing by it."""

from pathlib import Path

import pytest
import torch
from attnspec.backends.cute.kernel.blocks.conversion import NEAR
from attnspec.runtime.assemble import assemble

import attnspec
from attnspec import stages
from tests.small_constants import path_of

CONVERSIONS = "cvt.rn.f32.s32"
FAR = (1 << 24) - 256  # as far as positions go; of three times as much floats have each fourth


@pytest.mark.parametrize("target", ["sm90", "sm100"])
def test_distances_are_not_converted_one_by_one(target: str, tmp_path: Path) -> None:
    """ALiBi: a few a trip, where a thread has 64 scores or 128."""
    analysed = stages.analyse(stages.read(path_of("alibi")))
    schedule = stages.place(stages.draw(analysed, "forward", target), analysed, target)
    assert assemble(stages.emit(analysed, schedule), tmp_path).ptx.count(CONVERSIONS) < 32


FORMS = {
    f"(3 * kv - {3 * FAR + 1}) * 0.125": lambda q, kv: (3 * kv - 3 * FAR - 1) * 0.125,
    f"({3 * FAR + 5} - 3 * kv) * 0.125": lambda q, kv: (3 * FAR + 5 - 3 * kv) * 0.125,
    f"abs(q - kv + {NEAR}) * 0.25": lambda q, kv: (q - kv + NEAR).abs() * 0.25,
}


@pytest.mark.parametrize("target", ["sm90", "sm100"])
@pytest.mark.parametrize("form", FORMS)
def test_constants_that_are_taken_apart_lose_nothing(target: str, form: str) -> None:
    """Keys so far on that a conversion of their positions alone would round away what the scores are made of."""
    attention = attnspec.build(f"attention far\nhead_dim 32\nscore = score + {form}\n", target=target, on="emulator")
    q, k, v = (torch.randn(1, rows, 1, 32, generator=torch.Generator().manual_seed(rows)).bfloat16() for rows in (70, 200, 201))
    v = v[:, :200]
    out = attention(q, k, v, q_offset=FAR, kv_offset=FAR, len_q=FAR + 200, len_kv=FAR + 200)
    places = (torch.arange(FAR, FAR + one, dtype=torch.float64) for one in (70, 200))
    bias = FORMS[form](*(place.view(shape) for place, shape in zip(places, ((-1, 1), (1, -1)), strict=True)))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) * 32**-0.5 + bias
    expected = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v.double())
    # bf16 has 8 bits: half a step of an output, and of the probabilities that make it.
    assert (out.double() - expected).abs().max() < 2**-8 * v.abs().max()
