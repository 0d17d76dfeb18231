"""Tiles at length: work and memory go with what is visited."""

import time
import tracemalloc

import numpy as np
import pytest
from attnspec.lowering.analysis.analyse import analyse
from attnspec.lowering.analysis.analysed import Walk
from attnspec.lowering.analysis.classify import classify
from attnspec.lowering.analysis.evaluate import Env, names_for
from attnspec.lowering.analysis.invariance import shift_period
from attnspec.lowering.analysis.tiles import TileCount, count_tiles, tiles

from attnspec.language.load import read_spec
from tests.lowering.analysis.cases import FOLDER, analysed, drawn
from tests.lowering.analysis.masks import CAUSAL, DISTANCE, KV, Q, both, compare, op, table
from tests.lowering.analysis.naive import brute_classes, run_classes

MILLION = 1_000_000
SECONDS, BYTES = 3.0, 200 * 2**20


def measured(walk: Walk, env: Env) -> TileCount:
    """Counts at tiles of 128; fails if it takes too long or too much."""
    tracemalloc.start()
    start = time.perf_counter()
    found = count_tiles(walk, 128, 128, MILLION, MILLION, env)
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < SECONDS
    assert peak < BYTES
    return found


def env_of(**tensors: np.ndarray) -> Env:
    return Env(names_for(len_q=MILLION, len_kv=MILLION), tensors)


def test_causal_at_a_million() -> None:
    tiles_a_side = -(-MILLION // 128)
    found = measured(analysed("causal").keys, env_of())
    assert found.visited == tiles_a_side * (tiles_a_side + 1) // 2
    assert found.partial == tiles_a_side
    assert found.total == tiles_a_side**2


def test_window_4096_at_a_million() -> None:
    spec = read_spec(FOLDER / "gemma2_local.attn")
    found = measured(analyse(spec).keys, env_of())
    rows = np.arange(0, MILLION, 128)
    first, last = np.maximum(rows - 4095, 0) // 128, np.minimum(rows + 127, MILLION - 1) // 128
    assert found.visited == int((last - first + 1).sum())


@pytest.mark.parametrize("axis", ["keys", "queries"])
def test_documents_at_a_million(axis: str) -> None:
    ids = np.sort(np.random.default_rng(0).integers(0, 300, (1, MILLION)), axis=1)
    walk = getattr(analysed("document_causal"), axis)
    found = measured(walk, env_of(ids_q=ids, ids_kv=ids))
    starts = np.searchsorted(ids[0], ids[0, np.arange(0, MILLION, 128)])
    last = np.minimum(np.arange(0, MILLION, 128) + 127, MILLION - 1)
    assert found.visited == int((last // 128 - starts // 128 + 1).sum())


def test_tile_of_one_element_at_length() -> None:
    walk = analysed("causal").keys
    runs = tiles(walk, 1, 1, 4000, 4000, Env(names_for(len_q=4000, len_kv=4000)))
    assert runs.full.all()
    assert len(runs.at) == 4000


@pytest.mark.parametrize("lengths", [(0, 8), (8, 0), (0, 0)])
def test_an_empty_side_has_no_tiles(lengths: tuple[int, int]) -> None:
    for name in ("causal", "document_packing", "dense", "natten_2d"):
        found = analysed(name)
        sizes = {"batch": 1, "heads": 1, "kv_heads": 1, "len_q": lengths[0], "len_kv": lengths[1]}
        env = Env(names_for(**sizes), {tensor.name: drawn(tensor, sizes, 0) for tensor in found.spec.tensors})
        for axis in ("kv", "q"):
            classes = classify(found, axis, 4, 4, *lengths, env)  # type: ignore[arg-type]
            assert len(classes.runs.at) == 0
            assert sum(map(len, classes.runs)) == 0


def test_documents_that_are_the_same_on_both_sides_are_exact() -> None:
    draw = np.random.default_rng(1)
    for _ in range(30):
        length, tile_q, tile_kv = (int(draw.integers(1, high)) for high in (41, 13, 13))
        ids = np.sort(draw.integers(0, 5, (1, length)), axis=1)
        fixed = names_for(len_q=length, len_kv=length)
        for walk in (analysed("document_causal").keys, analysed("document_causal").queries):
            runs = tiles(walk, tile_q, tile_kv, length, length, Env(fixed, {"ids_q": ids, "ids_kv": ids}))
            lists = {"ids_q": ids.tolist(), "ids_kv": ids.tolist()}
            mask = analysed("document_causal").spec.mask
            assert run_classes(runs) == brute_classes(mask, walk.axis, tile_q, tile_kv, T=lists, **fixed)


PERIODS = {
    "distance": (CAUSAL, 1),
    "dilated": (compare(op("%", DISTANCE, 3), "==", 0), 1),
    "chunks": (compare(op("//", Q, 6), "==", op("//", KV, 4)), None),
    "equal chunks": (compare(op("//", Q, 6), "==", op("//", KV, 6)), 6),
    "columns": (both(compare(op("%", Q, 4), "==", op("%", KV, 4)), compare(op("%", KV, 6), "<", 2)), 12),
    "prefix": (compare(KV, "<", 7), None),
    "table": (compare(table("ids", Q), "==", 3), None),
}


@pytest.mark.parametrize("name", PERIODS)
def test_period_of_a_mask(name: str) -> None:
    mask, period = PERIODS[name]
    assert shift_period(mask) == period
