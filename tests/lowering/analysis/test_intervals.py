"""Tile classes against brute force."""

import random

import numpy as np
import pytest
from attnspec.lowering.analysis.analysed import Walk
from attnspec.lowering.analysis.evaluate import Env, names_for
from attnspec.lowering.analysis.facts import Facts
from attnspec.lowering.analysis.intervals import walks
from attnspec.lowering.analysis.tiles import tiles
from hypothesis import given, settings
from hypothesis import strategies as st

from attnspec.language.expr import Expr, Name, Select
from tests.lowering.analysis.cases import tables
from tests.lowering.analysis.masks import (
    CAUSAL,
    DISTANCE,
    KV,
    LEN_KV,
    QPOS,
    TENSORS,
    B,
    Q,
    absolute,
    any_atoms,
    both,
    combined,
    compare,
    difference_atoms,
    either,
    integer,
    negation,
    op,
    table,
)
from tests.lowering.analysis.naive import assert_sound, brute_classes, run_classes

FACTS = Facts(TENSORS)
LENGTHS = st.integers(1, 40)
TILES = st.integers(1, 16)
AXES = st.sampled_from(["kv", "q"])

IDS_EQUAL = compare(table("ids", Q), "==", table("ids", KV))
IDS_MIXED = compare(table("ids", Q), "==", table("ids_kv", KV))


def chunk(position: Expr, size: int) -> Expr:
    return op("//", position, size)


EXACT = {
    "causal, bottom right": CAUSAL,
    "causal, top left": compare(KV, "<=", Q),
    "window": both(CAUSAL, compare(KV, ">", op("-", QPOS, 5))),
    "two-sided window": compare(absolute(DISTANCE), "<=", 3),
    "window of two widths": both(compare(op("-", KV, Q), "<=", 4), compare(DISTANCE, "<=", 7)),
    "prefix": either(CAUSAL, compare(KV, "<", 7)),
    "sinks and window": both(CAUSAL, either(compare(KV, "<", 4), compare(KV, ">", op("-", QPOS, 5)))),
    "not a window": negation(compare(absolute(DISTANCE), "<=", 3)),
    "chunks": both(CAUSAL, compare(chunk(QPOS, 6), "==", chunk(KV, 6))),
    "chunks and window": both(CAUSAL, compare(chunk(QPOS, 8), "==", chunk(KV, 8)), compare(KV, ">", op("-", QPOS, 5))),
    "chunks of two sizes": compare(chunk(Q, 6), "!=", chunk(KV, 4)),
    "the chunk before too": both(compare(chunk(Q, 5), "<=", op("+", chunk(KV, 5), 1)), compare(KV, "<=", Q)),
    "shifted chunks": compare(chunk(op("+", Q, 3), 4), "==", chunk(op("-", KV, 1), 4)),
    "two keys a query": compare(op("*", Q, 2), ">=", KV),
    "slope 2/3": compare(op("*", Q, 2), ">=", op("*", KV, 3)),
    "documents": IDS_EQUAL,
    "documents, causal": both(IDS_EQUAL, compare(KV, "<=", Q)),
    "documents, window": both(IDS_EQUAL, compare(absolute(DISTANCE), "<=", 2)),
    "documents before": compare(table("ids", Q), ">", table("ids", KV)),
    "documents up to the next": compare(table("ids", Q), ">=", op("-", table("ids", KV), 1)),
    "keys of one document": compare(table("ids", KV), "==", 3),
    "nothing": compare(KV, ">", op("+", LEN_KV, Q)),
    "by head": compare(DISTANCE, "<=", Select(compare(Name("h", "int"), "==", 0), integer(3), integer(9), "int")),
    "only one batch": both(CAUSAL, compare(B, "==", 1)),
}


def walk_along(axis: str, mask: Expr) -> Walk:
    keys, queries = walks(mask, FACTS)
    return keys if axis == "kv" else queries


def classes(mask: Expr, axis: str, shape: tuple[int, int, int, int], seed: int = 0, **more: int):
    """(walk, classes from the walk, classes by brute force)."""
    tile_q, tile_kv, len_q, len_kv = shape
    data = tables(seed, 64)
    walk = walk_along(axis, mask)
    env = Env(names_for(len_q=len_q, len_kv=len_kv, **more), {name: np.array(row) for name, row in data.items()})
    found = run_classes(tiles(walk, tile_q, tile_kv, len_q, len_kv, env))
    fixed = {"b": 0, "h": 0, **more}
    return walk, found, brute_classes(mask, axis, tile_q, tile_kv, len_q, len_kv, T=data, **fixed)


def shapes(count: int, equal: bool) -> list[tuple[int, int, int, int]]:
    """Tile and sequence lengths, the same at every run."""
    draw = random.Random(count)
    found = []
    for _ in range(count):
        len_q = draw.randint(1, 40)
        found.append((draw.randint(1, 16), draw.randint(1, 16), len_q, len_q if equal else draw.randint(1, 40)))
    return found


@pytest.mark.parametrize("axis", ["kv", "q"])
@pytest.mark.parametrize("name", EXACT)
def test_classes_of_common_masks_equal_brute_force(name: str, axis: str) -> None:
    for shape in shapes(40, equal="documents" in name):
        walk, found, truth = classes(EXACT[name], axis, shape, seed=sum(shape))
        assert walk.exact, walk.notes
        assert found == truth, shape


@pytest.mark.parametrize("axis", ["kv", "q"])
def test_a_condition_on_the_batch_switches_the_walk(axis: str) -> None:
    _, found, truth = classes(EXACT["only one batch"], axis, (4, 4, 9, 9), b=1, batch=2)
    assert found == truth
    assert "full" in found[1] + found[0]


@settings(max_examples=300, deadline=None)
@given(combined(difference_atoms(), 5), AXES, TILES, TILES, LENGTHS, LENGTHS)
def test_classes_of_affine_masks_equal_brute_force(mask, axis, tile_q, tile_kv, len_q, len_kv) -> None:
    walk, found, truth = classes(mask, axis, (tile_q, tile_kv, len_q, len_kv))
    assert_sound(found, truth)
    if walk.exact:
        assert found == truth
    else:
        assert all("too many cases" in note for note in walk.notes)


@settings(max_examples=300, deadline=None)
@given(combined(any_atoms(), 3), AXES, TILES, TILES, LENGTHS, LENGTHS, st.integers(0, 9))
def test_classes_of_any_mask_are_sound_and_exact_where_they_say_so(mask, axis, tile_q, tile_kv, len_q, len_kv, seed) -> None:
    walk, found, truth = classes(mask, axis, (tile_q, tile_kv, len_q, len_kv), seed)
    assert_sound(found, truth)
    if walk.exact:
        assert found == truth


@pytest.mark.parametrize("axis", ["kv", "q"])
def test_documents_with_two_tables_are_sound(axis: str) -> None:
    for shape in shapes(60, equal=False):
        walk, found, truth = classes(IDS_MIXED, axis, shape, seed=sum(shape))
        assert_sound(found, truth)
        assert not walk.exact


@pytest.mark.parametrize("mask", [compare(table("tags", Q), "==", table("tags", KV)), compare(op("%", DISTANCE, 3), "==", 0)])
def test_what_is_not_an_interval_is_visited_whole_with_the_reason(mask: Expr) -> None:
    walk = walk_along("kv", mask)
    assert not walk.exact
    assert walk.notes
    assert [(item.first, item.last) for item in walk.seen] == [(integer(0), LEN_KV)]


def test_unknown_part_of_an_and_keeps_the_bounds_of_the_rest() -> None:
    dilated = both(compare(op("%", DISTANCE, 3), "==", 0), compare(KV, "<=", Q), compare(DISTANCE, "<", 9))
    walk, found, truth = classes(dilated, "kv", (4, 4, 40, 40))
    assert_sound(found, truth)
    assert not walk.exact
    assert found[9] == ["empty"] * 7 + ["partial"] * 3


def test_a_mask_that_hides_every_key_has_an_empty_range_to_walk_and_visits_nothing():
    def one_of(*keys: int) -> Expr:
        first, second = (compare(KV, "==", integer(key)) for key in keys)
        return either(first, second)

    for walk in walks(both(one_of(0, 1), one_of(2, 3)), FACTS):
        assert [(item.first, item.last) for item in walk.seen] == [(integer(0), integer(0))]
        env = Env(names_for(len_q=300, len_kv=300))
        assert (walk.exact, list(tiles(walk, 128, 128, 300, 300, env))) == (True, [[], [], []])
