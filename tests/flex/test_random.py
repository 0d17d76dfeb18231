"""Random functions mean what torch makes of them, element by element."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.nn.attention.flex_attention import create_mask

import attnspec
from tests.flex.compare import BATCH, HEADS, score_by_spec, score_by_torch, visible_by_spec
from tests.flex.random_functions import CONDITIONS, FLOATS, LENGTH, Drawn

SIZES = {"batch": BATCH, "heads": HEADS, "len_q": LENGTH, "len_kv": LENGTH}
SCORE = 2 * torch.randn(BATCH, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(1))
NEVER = "mask-hides-every-key"


def check_mask(drawn: Drawn) -> None:
    def mask_mod(b, h, q_idx, kv_idx):
        return drawn.of(None, b, h, q_idx, kv_idx)

    wanted = create_mask(mask_mod, BATCH, HEADS, LENGTH, LENGTH, device="cpu")
    try:
        found = attnspec.from_flex(None, mask_mod, head_dim=64, **SIZES)
    except attnspec.SpecError as error:
        assert error.diagnostics[0].name == NEVER, drawn
        assert not wanted.any(), drawn
        return
    assert torch.equal(visible_by_spec(found, LENGTH), wanted), found.text


def check_score(drawn: Drawn) -> None:
    def score_mod(score, b, h, q_idx, kv_idx):
        return drawn.of(score, b, h, q_idx, kv_idx)

    found = attnspec.from_flex(score_mod, head_dim=64, **SIZES)
    wanted = score_by_torch(score_mod, SCORE).double()
    # f32 in torch, f64 in the oracle: a jump (`//` of floats there is none) would show as a whole number.
    torch.testing.assert_close(score_by_spec(found, SCORE).double(), wanted, atol=1e-4, rtol=1e-4, msg=found.text)


FEW = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))


@FEW
@given(CONDITIONS)
def test_a_random_mask_shows_what_it_shows_in_torch(drawn: Drawn) -> None:
    check_mask(drawn)


@FEW
@given(FLOATS)
def test_a_random_score_is_what_it_is_in_torch(drawn: Drawn) -> None:
    check_score(drawn)


@pytest.mark.slow
@MANY
@given(CONDITIONS)
def test_any_random_mask_shows_what_it_shows_in_torch(drawn: Drawn) -> None:
    check_mask(drawn)


@pytest.mark.slow
@MANY
@given(FLOATS)
def test_any_random_score_is_what_it_is_in_torch(drawn: Drawn) -> None:
    check_score(drawn)
