"""Masks solved for places in sorted tensors say what the file's mask says, for all queries and keys."""

import numpy as np
import pytest
from attnspec.lowering.analysis.evaluate import Env, evaluate, names_for
from attnspec.lowering.analysis.sorted_masks import Axis, solve_sorted

from attnspec import stages
from attnspec.language.expr import Read, Search, nodes
from attnspec.language.show_expr import show_expr
from attnspec.language.spec import Spec

HEAD = "attention sorts\nhead_dim 64\ninput r: i32[len_q] sorted\ninput w: i32[len_kv] sorted\ninput c: i32[len_kv]\n"
SOLVED = [
    "r[q] == w[kv]",
    "w[kv] != r[q]",
    "r[q] < w[kv]",
    "r[q] + 3 <= w[kv]",
    "w[kv] > 5 - 2 * r[q]",
    "w[kv] >= q // 4",
    "causal and not (w[kv] < r[q]) or w[kv] == 3",
    "w[kv] <= len_q - q and r[q] == w[kv]",
]
KEPT = [
    "r[q] == c[kv]",  # not sorted
    "w[kv] + 1 == r[q]",  # no element by itself
    "w[kv] < r[q] * (q % 3)",  # neither rises nor falls with the query
    "w[kv // 2] == r[q]",
    "w[clamp(q, 0, len_kv - 1)] == kv",
    "float(w[kv]) < 2.5",
]
Q, KV = 37, 53


def spec_of(mask: str) -> Spec:
    return stages.read(f"{HEAD}mask = {mask}\n")


def places_in(spec: Spec, axis: Axis) -> list[Search]:
    found = solve_sorted(spec, axis)
    return [] if found is None else [at for at in nodes(found) if isinstance(at, Search)]


@pytest.mark.parametrize("axis", ["kv", "q"])
@pytest.mark.parametrize("mask", [*SOLVED, *KEPT])
def test_what_is_visible_stays(mask: str, axis: Axis) -> None:
    spec, generator = spec_of(mask), np.random.default_rng(len(mask))
    for most in (1, 4, 60):
        tensors = {name: np.sort(generator.integers(0, most, count)) for name, count in (("r", Q), ("w", KV))}
        tensors["c"] = generator.integers(0, most, KV)
        names = names_for(len_q=Q, len_kv=KV) | {"q": np.arange(Q)[:, None], "kv": np.arange(KV)[None, :]}
        env = Env(names | {"q_first": 0, "q_last": Q - 1, "kv_first": 0, "kv_last": KV - 1}, tensors)
        solved = solve_sorted(spec, axis)
        assert solved is not None and spec.mask is not None
        shape = np.zeros((Q, KV), bool)
        assert np.array_equal(evaluate(solved, env) | shape, evaluate(spec.mask, env) | shape)


@pytest.mark.parametrize("mask", SOLVED)
def test_no_key_reads_a_sorted_tensor(mask: str) -> None:
    solved = solve_sorted(spec_of(mask), "kv")
    assert solved is not None
    assert not any(isinstance(at, Read) and at.tensor == "w" for at in nodes(solved))


@pytest.mark.parametrize("mask", KEPT)
def test_what_has_no_place_is_left_as_it_is(mask: str) -> None:
    spec = spec_of(mask)
    assert solve_sorted(spec, "kv") == spec.mask


def test_a_place_lies_between_those_of_the_first_and_the_last_row() -> None:
    rising, falling = (
        next(at for at in places_in(spec_of(mask), "kv") if at.within) for mask in ("w[kv] < r[q]", "w[kv] < 9 - r[q]")
    )
    assert [show_expr(at) for at in rising.within] == [
        "r[q_first]",
        "search_left(w, r[q_first])",
        "r[q_last]",
        "search_left(w, r[q_last])",
    ]
    assert [show_expr(at) for at in falling.within[::2]] == ["9 - r[q_last]", "9 - r[q_first]"]


def test_a_place_that_all_rows_share_is_sought_once() -> None:
    (place,) = set(places_in(spec_of("w[kv] < len_q // 2"), "kv"))
    assert place.within == ()
