"""Sizes at which 32-bit products overflow: public bug reports as cases (G2, G4; paged memory, G3, is not in this version).

Keys of such lengths share one row of memory (stride 0), and the mask shows a few of them, so that nothing large is made.
"""

import pytest
import torch

from tests.cases.attend import exactly_f32

WINDOW = "attention late\nhead_dim 128\nmask = kv > qpos - 100 and kv <= qpos\n"


def long(length, width):
    return torch.full((1, 1, 1, width), 0.5, dtype=torch.bfloat16).expand(1, length, 1, width)


@pytest.mark.parametrize("length", [4194303, 4194304, 4194305, 16777216])
def test_g2_the_last_keys_of_more_than_four_million_are_reached(target, length):
    attention = target.build(WINDOW)
    q = torch.zeros(1, 1, 1, 128, dtype=torch.bfloat16)
    out, lse = attention(q, long(length, 128), long(length, 128), return_lse=True)
    assert out.flatten().tolist() == [0.5] * 128
    assert lse.flatten().tolist() == exactly_f32([torch.tensor(100.0).log().item()])


@pytest.mark.parametrize("length", [46340, 46341, 65537])
def test_g4_positions_whose_product_passes_32_bits_need_no_table(target, length):
    attention = target.build(WINDOW)
    q = torch.zeros(1, 1, 1, 128, dtype=torch.bfloat16)
    out = attention(q, long(length, 128), long(length, 128), q_offset=length - 1, len_q=length)
    assert out.flatten().tolist() == [0.5] * 128
