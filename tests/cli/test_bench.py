import pytest
import torch

from tests.cli.command import Attnc


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_reason_is_said(attnc: Attnc) -> None:
    done = attnc("bench", "causal", "gemma2_local")
    assert done.code == 3
    assert "attnc bench times kernels on a GPU, and torch finds no CUDA GPU here; `attnc explain` shows" in done.err


def test_a_wrong_file_is_told_before_a_gpu_is_looked_for(attnc: Attnc) -> None:
    assert attnc("bench", "causl").code == 2


def test_sizes_that_are_not_given_are_those_of_a_usual_measurement() -> None:
    from attnspec import stages, variants
    from attnspec.cli.bench import shape_of

    found = {name: shape_of(stages.read(variants.path(name)), {}) for name in ("causal", "sliding_window", "gemma2_local")}
    assert (found["causal"].batch, found["causal"].heads, found["causal"].kv_heads, found["causal"].len_q) == (4, 16, 16, 4096)
    assert (found["sliding_window"].heads, found["gemma2_local"].kv_heads) == (32, 8)
    assert shape_of(stages.read(variants.path("causal")), {"q": 16384}).batch == 1
