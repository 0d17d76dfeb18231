"""Every variant that ships, against brute force."""

import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from attnspec.lowering.analysis.analyse import analyse
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.classify import classify
from attnspec.lowering.analysis.evaluate import Env, names_for
from attnspec.lowering.analysis.tiles import tiles

import attnspec.variants
from attnspec.language.expr import Expr
from attnspec.language.load import read_spec
from attnspec.language.spec import Spec, Tensor
from tests.lowering.analysis.naive import assert_sound, brute_classes, function_of, run_classes

FOLDER = Path(attnspec.variants.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.attn"))
SIZES = {"batch": 2, "heads": 4, "kv_heads": 2}
# Constants small enough that every tile class occurs at lengths a test can afford.
SMALLER = {
    "bigbird": {"block": 4},
    "block_causal": {"block": 5},
    "chunked": {"chunk": 7},
    "dilated": {"reach": 12, "dilation": 3},
    "gemma2_local": {"window": 9},
    "gemma3_local": {"window": 6},
    "gpt_oss": {"window": 7},
    "image_span": {"window": 5},
    "longformer": {"reach": 4},
    "natten_2d": {"columns": 6, "radius": 1},
    "sliding_window": {"left": 4, "right": 6},
    "sliding_window_causal": {"window": 9},
    "streaming_llm": {"sinks": 3, "window": 6},
    "strided": {"stride": 5},
    "swin_shifted": {"side": 5},
}


@cache
def analysed(name: str) -> Analysed:
    return analyse(read_spec(FOLDER / f"{name}.attn", SMALLER.get(name, {})))


def drawn(tensor: Tensor, sizes: dict[str, int], seed: int) -> np.ndarray:
    """Values within the declared range, else small; sorted if declared so."""

    def value(expr: Expr) -> int:
        return int(function_of(expr, **sizes)())  # type: ignore[call-overload]

    shape = [value(at) for at in tensor.shape]
    draw = np.random.default_rng(seed)
    if tensor.dtype in ("f32", "bf16", "fp16"):
        return draw.standard_normal(shape)
    if tensor.dtype == "bool":
        return draw.random(shape) < 0.2
    low = value(tensor.low) if tensor.low is not None else 0
    high = value(tensor.high) if tensor.high is not None else 5
    array = draw.integers(low, max(low, high), shape, endpoint=True)
    if tensor.name == "words":
        array = draw.integers(-(2**31), 2**31, shape)
    return np.sort(array, axis=-1) if tensor.is_sorted else array


def case(spec: Spec, len_q: int, len_kv: int, seed: int) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    sizes = {**SIZES, "len_q": len_q, "len_kv": len_kv}
    return sizes, {tensor.name: drawn(tensor, sizes, seed) for tensor in spec.tensors}


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
