"""Scores so large that an f32 LSE cannot hold the logarithm of the sum beside them."""

import pytest
import torch

from tests.cases.attend import attend, spec

SIZES = [0.0, -65536.0, 1e9, -1e30, 3e38]


@pytest.mark.parametrize("size", SIZES)
def test_equal_scores_of_any_size_share_the_gradient_evenly(size):
    found = attend(spec(f"score = score + {size}"), 2, [1.0, 2.0, 3.0, 6.0])
    assert found.out == [3.0, 3.0]
    assert found.dv == [0.5] * 4
    assert found.dlogits == pytest.approx([-1.0, -0.5, 0.0, 1.5], rel=2.0**-10, abs=2.0**-20)


@pytest.mark.parametrize("size", SIZES)
def test_a_sink_of_the_scores_size_takes_its_share(size):
    text = spec("learned s: f32[heads]", f"score = score + {size}", "sink = s[h]")
    found = attend(text, 1, [1.0, 1.0, 1.0], s=torch.tensor([size]))
    assert found.out == [0.75]
    assert found.dv == [0.25] * 3
    assert found.learned["s"].tolist() == pytest.approx([-0.75 * 0.25], rel=1e-6)
