"""A row that is NaN, since a score of its is infinite: it makes NaN of what it sees and of no other gradient."""

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs

import attnspec

BY_WORDS, BY_ELEMENT = "kv <= q", "kv <= q and see[q, kv]"  # the second on sm90: on sm100 it hides scores, not probabilities
CASES = [("sm100", BY_WORDS), ("sm90", BY_WORDS), ("sm90", BY_ELEMENT)]
SCORES = {"biased": "score + bias[kv]", "scaled": "score * bias[kv]"}  # of the second the score is wanted again with dP
ROW = 130  # of the second tile of queries; and the keys behind it of the second of keys


def text(score: str, mask: str) -> str:
    tensors = "input hot: f32[len_q]\ninput see: bool[len_q, len_kv]\nlearned bias: f32[len_kv]\n"
    return f"attention infinite\nhead_dim 8\n{tensors}score = {score} + hot[q]\nmask = {mask}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "mask"), CASES)
@pytest.mark.parametrize("score", SCORES)
def test_gradients_of_what_a_nan_row_does_not_see_are_right(target: str, score: str, mask: str) -> None:
    attention = attnspec.build(text(SCORES[score], mask), target=target, on="emulator")
    drawn = draw_inputs(attention.spec, Shape(1, 2, 1, 150, 150))
    hot = torch.zeros(150)
    hot[ROW] = float("inf")
    inputs = Inputs(drawn.q, drawn.k, drawn.v, drawn.tensors | {"hot": hot}, drawn.dout, drawn.dlse, drawn.keywords)
    rows = compare(attention, inputs)
    assert [(row.name, row.error, row.worst) for row in rows if not row.is_right] == []
