"""Learned tensors start inside what is declared of them."""

import pytest
import torch

from attnspec.nn import Attention


@pytest.mark.parametrize(
    ("declared", "score", "low", "high"),
    [
        ("f32[heads, 8] in 0.01..1.0", "score + t[h, clamp(qpos - kv, 0, 7)]", 0.01, 1.0),
        ("f32[heads] in 2.0..3.0", "score * t[h]", 2.0, 3.0),
        ("bf16[heads] in -1.0..-0.5", "score + t[h]", -1.0, -0.5),
    ],
)
def test_a_learned_tensor_starts_inside_its_declared_range(declared: str, score: str, low: float, high: float) -> None:
    layer = Attention(f"attention limited\nhead_dim 16\nlearned t: {declared}\nscore = {score}\n", heads=2)
    start = layer.get_parameter("t")
    assert start.min() >= low
    assert start.max() <= high
    q = torch.zeros(1, 3, 2, 16, dtype=torch.bfloat16)
    assert layer(q, q, q).isfinite().all()
