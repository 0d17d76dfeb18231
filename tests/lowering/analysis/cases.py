"""Variants with constants small enough for short sequences, and tensors drawn for them."""

import random
from functools import cache
from pathlib import Path

import numpy as np
from attnspec.lowering.analysis.analyse import analyse
from attnspec.lowering.analysis.analysed import Analysed

import attnspec.variants
from attnspec.language.expr import Expr
from attnspec.language.load import read_spec
from attnspec.language.spec import Spec, Tensor
from tests.lowering.analysis.naive import function_of

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
        return int(function_of(expr, **sizes)())

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


def tables(seed: int, length: int) -> dict[str, list[int]]:
    """A few documents, sorted in `ids` and `ids_kv`, unsorted in `tags`."""
    draw = random.Random(seed)
    ids = sorted(draw.randint(0, 5) for _ in range(length))
    return {"ids": ids, "ids_kv": sorted(draw.randint(0, 5) for _ in range(length)), "tags": draw.choices(range(6), k=length)}
