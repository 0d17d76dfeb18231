"""What is brought to shared memory once a tile, and that nothing of the meaning is lost on the way."""

import pytest
from attnspec.lowering.analysis.sorted_masks import solve_sorted
from attnspec.lowering.analysis.staging import PREFIX, StagedValue, Staging, stage

from attnspec import stages
from attnspec.language.expr import Expr, Name, Read, rewrite, substitute
from attnspec.language.show_expr import show_expr
from tests.small_constants import VARIANTS, path_of


def staged(text: str) -> Staging:
    return stage(stages.read(f"attention plain\nhead_dim 64\n{text}\n"))


def shown(value: StagedValue) -> tuple[str, str, bool]:
    return show_expr(value.expr), value.axis, value.in_score


def test_value_of_a_key_is_staged_by_key() -> None:
    found = staged("input gate: f32[batch, len_kv]\nscore = score * gate[b, kv] + 1.0")
    assert [shown(value) for value in found.values] == [("gate[b, kv]", "key", True)]


def test_value_of_a_distance_is_staged_whole_with_its_table_look_up() -> None:
    found = staged("learned bias: f32[heads, 17]\nscore = score + 2.0 * bias[h, clamp(kv - q, -8, 8) + 8]")
    ((expr, axis, in_score),) = [shown(value) for value in found.values]
    assert (axis, in_score) == ("distance", True)
    assert expr.startswith("2.0 * bias[h, ") and "distance" in expr


def test_ids_of_a_mask_are_staged_for_partial_tiles_alone() -> None:
    found = staged("input ids_q: i32[batch, len_q]\ninput ids_kv: i32[batch, len_kv]\nmask = ids_q[b, q] == ids_kv[b, kv]")
    assert [shown(value) for value in found.values] == [("ids_kv[b, kv]", "key", False)]


@pytest.mark.parametrize(
    "text",
    [
        "learned slopes: f32[heads]\nscore = score + slopes[h] * (kv - qpos)",  # one value a head
        "input bias: f32[len_q, len_kv]\nscore = score + bias[q, kv]",  # one an element
        "input gain: f32[len_q]\nscore = score * gain[q]",  # one a row
        "mask = kv <= qpos",
    ],
)
def test_nothing_else_is_staged(text: str) -> None:
    assert staged(text).values == ()


def test_same_value_is_staged_once() -> None:
    found = staged("input gate: f32[len_kv]\nscore = score * gate[kv]\nscore = score + gate[kv]")
    assert len(found.values) == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_staged_values_put_back_in_place_give_the_variant_again(variant: str) -> None:
    spec = stages.read(str(path_of(variant)))
    found = stage(spec)

    def put_back(at: Expr) -> Expr:
        if not (isinstance(at, Read) and at.tensor.startswith(PREFIX)):
            return at
        value = found.values[int(at.tensor.removeprefix(PREFIX))]
        return substitute(value.expr, "distance", at.indices[0]) if value.axis == "distance" else value.expr

    for before, after in ((spec.score, found.score), (solve_sorted(spec, "kv"), found.mask)):
        if before is not None and after is not None:
            again = rewrite(after, put_back)
            assert any(value.axis == "distance" for value in found.values) or again == before
            assert not any(isinstance(node, Name) and node.name == "distance" for node in _nodes(again))


def _nodes(expr: Expr) -> list[Expr]:
    found: list[Expr] = []
    rewrite(expr, lambda at: found.append(at) or at)
    return found
