"""How many tiles a variant visits at given lengths; tensors that its mask reads are drawn, and said to be."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnspec.cli.shape import CallShape
from attnspec.language.expr import Expr, Name, Read, nodes
from attnspec.language.spec import Tensor
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.classify import classify
from attnspec.lowering.analysis.evaluate import Array, Env, evaluate, names_for
from attnspec.lowering.analysis.tiles import count_runs, count_tiles

TILE = 128
DOCUMENT = 1024  # positions that a drawn sorted tensor keeps one value, on average
SHARE_TRUE = 0.01  # of a drawn bool tensor: what a mask marks is rare (global tokens)
MOST_DRAWN = 2**28  # elements of one tensor
MOST_HEADS = 16  # counted one by one where the mask tells heads or batches apart


@dataclass(frozen=True)
class Count:
    """Tiles of `heads` heads together, as the kernels' walk visits them.

    needed: tiles that hold a visible element, None where that would take too long to look at; how: how that was found.
    steps: KV tiles visited by work tiles of `work_rows` rows, which share one stream of them. assumed: of tensors.
    """

    visited: int
    partial: int
    full: int
    total: int
    needed: int | None
    how: str
    steps: int
    work_rows: int
    heads: int
    assumed: tuple[str, ...]


def count(analysed: Analysed, shape: CallShape, work_rows: int) -> Count | str:
    """Tiles of the forward walk, 128 by 128; a sentence where they cannot be counted."""
    arrays, assumed = {}, []
    for tensor in tensors_of_mask(analysed):
        extents = extents_of(tensor, shape)
        if np.prod(extents, dtype=float) > MOST_DRAWN:
            return f"not counted: the mask reads `{tensor.name}`, {' x '.join(map(str, extents))} elements at these lengths"
        arrays[tensor.name], how = draw(tensor, extents, sizes_of(shape))
        assumed.append(f"`{tensor.name}`: {how}")
    lengths = (shape.len_q, shape.len_kv)
    envs = [Env(names_for(b, h, **sizes_of(shape)), arrays) for b, h in heads_to_count(analysed, shape)]
    walked = [count_tiles(analysed.keys, TILE, TILE, *lengths, env) for env in envs]
    found = [classify(analysed, "kv", TILE, TILE, *lengths, env) for env in envs]
    return Count(
        visited=sum(item.visited for item in walked),
        partial=sum(item.partial for item in walked),
        full=sum(item.full for item in walked),
        total=sum(item.total for item in walked),
        needed=sum(count_runs(item.runs).visited for item in found) if all(item.exact for item in found) else None,
        how="; ".join(dict.fromkeys(item.reason for item in found)),
        steps=sum(count_tiles(analysed.keys, work_rows, TILE, *lengths, env).visited for env in envs),
        work_rows=work_rows,
        heads=len(envs),
        assumed=tuple(assumed),
    )


def sizes_of(shape: CallShape) -> dict[str, int]:
    """By the language's names."""
    return {
        "batch": shape.batch,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "len_q": shape.len_q,
        "len_kv": shape.len_kv,
    }


def tensors_of_mask(analysed: Analysed) -> list[Tensor]:
    """Those that the mask reads."""
    mask = analysed.spec.mask
    names = {at.tensor for at in nodes(mask) if isinstance(at, Read)} if mask is not None else set()
    return [tensor for tensor in analysed.spec.tensors if tensor.name in names]


def heads_to_count(analysed: Analysed, shape: CallShape) -> Iterator[tuple[int, int]]:
    """(b, h) pairs, the first few; one where the mask is the same for all."""
    mask = analysed.spec.mask
    names = {at.name for at in nodes(mask) if isinstance(at, Name)} if mask is not None else set()
    batches = range(shape.batch if "b" in names else 1)
    heads = range(shape.heads if names & {"h", "hkv"} else 1)
    for number, pair in enumerate((b, h) for b in batches for h in heads):
        if number < MOST_HEADS:
            yield pair


def extents_of(tensor: Tensor, shape: CallShape) -> tuple[int, ...]:
    """The declared shape in numbers."""
    return tuple(max(0, value_at(extent, sizes_of(shape))) for extent in tensor.shape)


def value_at(expr: Expr, sizes: dict[str, int]) -> int:
    """An int expression in sizes."""
    return int(evaluate(expr, Env(sizes)))


def draw(tensor: Tensor, extents: tuple[int, ...], sizes: dict[str, int]) -> tuple[Array, str]:
    """An array, the same for the same extents, and what was assumed."""
    generator = np.random.default_rng(0)
    if tensor.dtype == "bool":
        return generator.random(extents) < SHARE_TRUE, f"true for {100 * SHARE_TRUE:g} % of its elements, drawn"
    if tensor.dtype != "i32":
        return generator.standard_normal(extents), "normal numbers, drawn"
    low = value_at(tensor.low, sizes) if tensor.low is not None else 0
    high = value_at(tensor.high, sizes) if tensor.high is not None else max(low, sizes["len_kv"] - 1)
    if tensor.is_sorted and extents:
        steps = generator.random(extents) < 1 / DOCUMENT
        return np.minimum(low + np.cumsum(steps, axis=-1), high), f"sorted, runs of {DOCUMENT} equal values on average, drawn"
    return generator.integers(low, max(low, high), extents, endpoint=True), f"integers from {low} to {high}, drawn"
