"""The deepest expressions that the language takes go through every stage: no recursion runs out."""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec

DEEP = {
    "calls": "score = " + "tanh(" * 190 + "score" + ")" * 190,
    "sums": "score = score" + "".join(f" + w * {number}.0" for number in range(190)),
    "products": "score = score * 0.001" + " * w" * 190,
    "choices": "score = " + "(score if kv > 1 else " * 190 + "w" + ")" * 190,
    "conditions": "mask = " + " or ".join(f"kv == {number}" for number in range(190)),
}


@pytest.mark.parametrize("kind", DEEP)
def test_a_deep_expression_is_compiled_and_right(kind):
    statements = DEEP[kind] if kind == "conditions" else f"learned w: f32\n{DEEP[kind]}\nscore = score + w"
    attention = attnspec.build(f"attention deep\nhead_dim 8\n{statements}\n")
    assert all(row.is_right for row in compare(attention, draw_inputs(attention.spec, Shape(1, 1, 1, 3, 4))))
