"""Sizes at which 32-bit products overflow: public bug reports as cases (G2, G3 for the strides of a batch in place of pages, G4).

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


@pytest.mark.parametrize("page", [16383, 16384])
def test_g3_keys_that_lie_2_to_the_31_elements_away_are_their_own(target, page):
    """Two pages of 128 keys, 8 heads and 128 columns, 131072 elements each: the second is the page of that number."""
    attention = target.build("attention paged\nhead_dim 128\n")
    elements = 128 * 8 * 128
    memory = torch.empty(elements * (page + 1), dtype=torch.bfloat16)  # of which two pages are touched
    k = memory.as_strided((2, 128, 8, 128), (page * elements, 1024, 128, 1))
    k[0], k[1] = 1.0, 3.0
    q = torch.zeros(2, 1, 8, 128, dtype=torch.bfloat16)
    out = attention(q, k, k)
    assert (out[0] == 1.0).all()
    assert (out[1] == 3.0).all()
