"""What an emitted module for Hopper says, as text."""

import ast

import pytest

from tests.backends.sm90.build import forward_text
from tests.golden_text import check_golden
from tests.small_constants import VARIANTS, path_of


def test_gemma2_local_is_the_golden_text() -> None:
    check_golden("sm90_forward_gemma2_local.txt", forward_text(str(path_of("gemma2_local"))))


@pytest.mark.parametrize("variant", VARIANTS)
def test_module_is_readable_python_of_a_few_pages(variant: str) -> None:
    text = forward_text(str(path_of(variant)))
    ast.parse(text)
    assert 100 <= len(text.splitlines()) <= 250


def test_functions_of_a_variant_are_those_of_every_target() -> None:
    text = forward_text(str(path_of("gemma2_local")))
    for name in ("seen_keys", "hidden_keys", "row_values", "new_score", "visible_keys"):
        assert f"def {name}(" in text
    assert "sm_90a" in text and "tensor_columns" not in text


def test_bounded_score_has_no_maximum_and_nothing_to_rescale() -> None:
    text = forward_text("attention capped\nhead_dim 128\nscore = softcap(score, 30.0)\n")
    assert "midpoint=0.0" in text
    for absent in ("'row_max'", "'rescale'"):
        assert absent not in text
