"""The Blackwell forward kernel, run whole: right against the oracle, the same bits whatever the timing."""

import pytest
import torch

from tests.emulator.forward import forward

DENSE = "attention dense\nhead_dim 128"
CAUSAL = "attention causal\nhead_dim 64\nmask = kv <= qpos"
LOCAL = """
attention local
head_dim 128
group 2
const window = 150
score = softcap(score, 50.0)
mask = kv <= qpos and kv > qpos - window
"""


def test_dense_attention_is_right():
    forward(DENSE, 1, (1, 1), (256, 256)).check()


@pytest.mark.parametrize("lengths", [(1, 1), (300, 417), (417, 300)])
def test_causal_attention_of_ragged_lengths_is_right(lengths):
    forward(CAUSAL, 1, (2, 1), lengths).check()


def test_many_tiles_of_one_cta_are_right():
    forward(CAUSAL, 2, (4, 2), (300, 417), processors=1).check()


def test_a_capped_local_mask_with_grouped_heads_is_right():
    forward(LOCAL, 1, (2, 1), (300, 417), processors=1).check()


def test_every_seed_gives_the_same_bits():
    first = forward(CAUSAL, 1, (2, 1), (300, 417), processors=1)
    for seed in range(5):
        ran = forward(CAUSAL, 1, (2, 1), (300, 417), processors=1, seed=seed)
        ran.check()
        assert torch.equal(ran.out, first.out) and torch.equal(ran.lse, first.lse)


def test_the_launch_is_what_the_host_code_asks_for():
    (launched,) = forward(CAUSAL, 1, (2, 1), (300, 417), processors=3).report.launches
    assert launched.grid == (3, 1, 1) and launched.threads == 512 and launched.shared_bytes > 100_000
    assert launched.counts["tcgen05.mma.cta_group::1.kind::f16"] > 0
