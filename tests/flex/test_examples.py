"""Public FlexAttention functions, traced, against what torch makes of them."""

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

import attnspec
from tests.flex.compare import (
    BATCH,
    HEADS,
    WIDTH,
    by_torch_compiled,
    check_same,
    draw,
    score_by_spec,
    score_by_torch,
    visible_by_spec,
)
from tests.flex.masks import MASKS
from tests.flex.scores import SCORES

LENGTHS = {"natten 3-D": 27, "morton natten": 16}
# One of each kind of captured tensor; the others run forward and backward among the slow tests.
MASKS_THAT_RUN = ("jagged", "key padding", "paged", "transfusion")
SCORES_THAT_RUN = ("alibi of a table", "clipped relative table", "graphormer edges", "one number", "two reads", "softcap")


def length_of(name: str) -> int:
    return LENGTHS.get(name, 24)


def traced(score_mod: Any, mask_mod: Any, length: int) -> attnspec.FlexVariant:
    sizes = {"batch": BATCH, "heads": HEADS, "len_q": length, "len_kv": length}
    return attnspec.from_flex(score_mod, mask_mod, head_dim=WIDTH, **sizes)


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_shows_what_it_shows_in_torch(name: str) -> None:
    length = length_of(name)
    mask_mod = MASKS[name]()
    wanted = create_mask(mask_mod, BATCH, HEADS, length, length, device="cpu")
    assert torch.equal(visible_by_spec(traced(None, mask_mod, length), length), wanted)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_what_it_is_in_torch(name: str) -> None:
    score_mod, mask_mod, _ = SCORES[name]()
    score = 3 * torch.randn(BATCH, HEADS, 24, 24, generator=torch.Generator().manual_seed(1))
    found = score_by_spec(traced(score_mod, mask_mod, 24), score)
    torch.testing.assert_close(found.float(), score_by_torch(score_mod, score).float(), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("name", MASKS_THAT_RUN)
def test_attention_under_a_mask_is_torch_s_with_its_gradients(name: str) -> None:
    check_same(None, MASKS[name](), draw(length_of(name), length_of(name)))


@pytest.mark.parametrize("name", SCORES_THAT_RUN)
def test_attention_of_a_score_is_torch_s_with_its_gradients(name: str) -> None:
    score_mod, mask_mod, learned = SCORES[name]()
    check_same(score_mod, mask_mod, draw(size=3.0), learned)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MASKS if name not in MASKS_THAT_RUN])
def test_attention_under_any_mask_is_torch_s_with_its_gradients(name: str) -> None:
    check_same(None, MASKS[name](), draw(length_of(name), length_of(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCORES if name != "one number"])  # torch cannot differentiate by a scalar
def test_gradients_are_those_of_torch_s_own_backward(name: str) -> None:
    score_mod, mask_mod, learned = SCORES[name]()
    check_same(score_mod, mask_mod, draw(size=3.0), learned, reference=by_torch_compiled)
