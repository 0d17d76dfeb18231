"""What an emitted module says, as text."""

import ast

import pytest

from tests.backends.sm100.build import emitted, forward_text, with_head_dim
from tests.golden_text import check_golden
from tests.small_constants import VARIANTS, path_of


def test_gemma2_local_is_the_golden_text() -> None:
    check_golden("sm100_forward_gemma2_local.txt", forward_text(str(path_of("gemma2_local"))))


@pytest.mark.parametrize("variant", VARIANTS)
def test_module_is_readable_python_of_a_few_pages(variant: str) -> None:
    text = forward_text(str(path_of(variant)))
    ast.parse(text)
    assert 100 <= len(text.splitlines()) <= 250


def test_what_a_variant_lacks_is_not_wired() -> None:
    text = forward_text("attention plain\nhead_dim 64\n")
    for absent in ("def new_score", "def visible_keys", "def sink_score"):
        assert absent not in text
    assert "score=None" in text and "mask=None" in text and "sink=None" in text


def test_bounded_score_has_no_maximum_and_nothing_to_rescale() -> None:
    text = forward_text("attention capped\nhead_dim 64\nscore = softcap(score, 30.0)\n")
    assert "midpoint=0.0" in text
    assert "roles.finish import finish" in text
    for absent in ("roles.correction", "'scale'", "'rescaled'"):
        assert absent not in text
    unbounded = forward_text("attention capped\nhead_dim 64\ndtype fp16\nscore = softcap(score, 30.0)\n")
    assert "midpoint=None" in unbounded and "roles.correction import correction" in unbounded


def test_positive_constant_scale_is_folded_into_the_exponential() -> None:
    assert "scale=None" in forward_text("attention plain\nhead_dim 64\n")
    assert "scale=softmax_scale" in forward_text("attention plain\nhead_dim 64\nscale -0.125\n")


def test_value_of_a_row_is_computed_once_a_row() -> None:
    text = forward_text("attention alibi\nhead_dim 64\nlearned slopes: f32[heads]\nscore = score + slopes[h] * (kv - qpos)\n")
    row = text[text.index("def row_values") : text.index("def new_score")]
    element = text[text.index("def new_score") : text.index("def softmax_scale")]
    assert "read(" in row
    assert "read(" not in element


def test_emitted_lines_know_their_place_in_the_spec() -> None:
    module = emitted(str(path_of("gemma2_local"))).module("forward")
    lines = module.text.split("\n")
    marked = {lines[number - 1].strip().split(" = ")[0]: span for number, span in module.spans.items()}
    assert str(marked["u_qpos"]).endswith("gemma2_local.attn:9:14")


HOSTILE = """attention plain
head_dim 64
input __import__: f32[heads]
input os_system_: f32[heads]
score = score + __import__[h] + os_system_[h]  # \"\"\" + __import__('os').system('true') + \"\"\"
"""


def test_names_and_comments_of_the_spec_are_never_code() -> None:
    text = forward_text(HOSTILE)
    tree = ast.parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "__import__" not in names | attributes
    assert "u___import__" in attributes
    assert "system" not in names | attributes


def test_order_of_the_tensor_role_is_the_schedules() -> None:
    text = forward_text(with_head_dim("128"))
    program = [line.strip() for line in text.split("\n") if line.strip().startswith("Step('mma")]
    assert program == [
        "Step('mma_pv_head', 0, 1),",
        "Step('mma_pv_tail', 0, 1),",
        "Step('mma_qk', 0, 0),",
        "Step('mma_pv_head', 1, 1),",
        "Step('mma_pv_tail', 1, 1),",
        "Step('mma_qk', 1, 0),",
    ]
