"""Every variant that ships, against brute force."""

import random

import pytest
from attnspec.lowering.analysis.classify import classify
from attnspec.lowering.analysis.evaluate import Env, names_for
from attnspec.lowering.analysis.tiles import tiles

from tests.lowering.analysis.cases import NAMES, analysed, case
from tests.lowering.analysis.naive import assert_sound, brute_classes, run_classes


def shapes(name: str) -> list[tuple[int, int, int, int]]:
    draw = random.Random(name)
    fixed = [(4, 4, 1, 1), (4, 4, 4, 2), (3, 5, 2, 30), (16, 16, 33, 33)]
    return [*fixed, *((draw.randint(1, 12), draw.randint(1, 12), draw.randint(1, 40), draw.randint(1, 40)) for _ in range(10))]


@pytest.mark.parametrize("name", NAMES)
def test_tile_classes_of_a_variant_equal_brute_force(name: str) -> None:
    found = analysed(name)
    for seed, shape in enumerate(shapes(name)):
        tile_q, tile_kv, len_q, len_kv = shape
        sizes, tensors = case(found.spec, len_q, len_kv, seed)
        fixed = names_for(seed % 2, 1 + seed % 3, **sizes)
        lists = {key: array.tolist() for key, array in tensors.items()}
        env = Env(fixed, tensors)
        for walk in (found.keys, found.queries):
            truth = brute_classes(found.spec.mask, walk.axis, tile_q, tile_kv, T=lists, **fixed)
            by_walk = run_classes(tiles(walk, tile_q, tile_kv, len_q, len_kv, env))
            assert_sound(by_walk, truth)
            assert by_walk == truth or not walk.exact
            classes = classify(found, walk.axis, tile_q, tile_kv, len_q, len_kv, env)
            assert classes.exact
            assert run_classes(classes.runs) == truth


def test_a_budget_too_small_leaves_the_classes_of_the_walk() -> None:
    found = analysed("longformer")
    sizes, tensors = case(found.spec, 30, 30, 0)
    env = Env(names_for(**sizes), tensors)
    classes = classify(found, "kv", 4, 4, 30, 30, env, budget=10)
    assert not classes.exact
    assert "global_q[b, q]" in classes.reason
    assert run_classes(classes.runs) == run_classes(tiles(found.keys, 4, 4, 30, 30, env))
