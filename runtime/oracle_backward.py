"""Gradients of one sequence in the oracle: what each pair adds, and where."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.runtime.oracle_expression import Dual
from attnspec.runtime.oracle_scatter import scatter
from numpy.typing import NDArray

from attnspec.language.expr import Expr, Name, Read

Floats = NDArray[np.float64]
Arrays = tuple[Floats, Floats, Floats]
SCORE = Name("score", "float")


@dataclass(frozen=True)
class Scored:
    """Scores before the mask, (heads, q, kv), with their slopes by `score`, q . k times the scale, and by reads; the sink's.

    given: values of all names.
    """

    score: Dual
    scale: Any
    sink: Dual | None
    given: Mapping[str, Any]


@dataclass(frozen=True)
class Backward:
    """What the forward of one sequence leaves for its gradients.

    arrays: q by head; k and v by query head. fold: key heads, and heads of each. tensors: declared ones;
    learned: names of those that receive a gradient.
    """

    arrays: Arrays
    fold: tuple[int, int]
    tensors: Mapping[str, NDArray]
    learned: frozenset[str]
    scored: Scored
    seen: NDArray[np.bool_]
    probability: Floats
    sink_probability: Floats


@dataclass(frozen=True)
class Terms:
    """What each pair adds to d(q . k), to dV per dO and to what each read gave; what each row adds to what the sink read."""

    raw: Floats
    value: Floats
    reads: Mapping[Expr, Floats]
    sinks: Mapping[Expr, Floats]


def gradients(
    out: Floats, state: Backward, dout: Floats, dlse: Floats, spread: dict[str, Floats] | None = None
) -> dict[str, Floats]:
    """By name, from the forward's `out`; with `spread`, which is then filled, the sums of absolute terms instead."""
    size: Callable[[Any], Any] = (lambda array: array) if spread is None else np.abs
    p, (q, k, v), scored = state.probability, map(size, state.arrays), state.scored
    dout, dlse = size(dout), size(dlse)
    given = (dout * out).sum(-1) * (-1.0 if spread is None else 1.0) + dlse
    # A masked pair adds nothing, whatever its slope (0 * inf would be NaN).
    dscore = np.where(state.seen, p * (dout @ v.swapaxes(1, 2) + given[..., None]), 0.0)
    dsink = (state.sink_probability * given)[..., None]
    slopes, sinks = scored.score.slopes, {} if scored.sink is None else scored.sink.slopes
    terms = Terms(
        raw=np.where(state.seen, dscore * size(np.asarray(slopes.get(SCORE, 0.0))), 0.0) * size(np.asarray(scored.scale)),
        value=p,
        reads={seed: dscore * size(slope) for seed, slope in slopes.items() if seed != SCORE},
        sinks={seed: dsink * size(slope) for seed, slope in sinks.items()},
    )
    return add_up(state, terms, (q, k, dout), spread)


def add_up(state: Backward, terms: Terms, arrays: Arrays, spread: dict[str, Floats] | None = None) -> dict[str, Floats]:
    """Sums by name: of k and v over the heads of a group, of learned tensors over the pairs that read an element."""
    q, k, dout = arrays
    turned = state.seen.swapaxes(1, 2)
    fold = state.fold
    found = {
        "q": product(terms.raw, state.seen, k),
        "k": product(terms.raw.swapaxes(1, 2), turned, q).reshape(*fold, *k.shape[1:]).sum(1),
        "v": product(terms.value.swapaxes(1, 2), turned, dout).reshape(*fold, k.shape[1], dout.shape[2]).sum(1),
    }
    totals = {name: np.zeros(state.tensors[name].shape) for name in state.learned}
    for seed, term in terms.reads.items():
        if isinstance(seed, Read):
            scatter(totals, spread, seed, np.where(state.seen, term, 0.0), state.scored.given, state.tensors)
    for seed, term in terms.sinks.items():
        assert isinstance(seed, Read)
        scatter(totals, spread, seed, term, state.scored.given, state.tensors)
    return found | totals


def product(weight: Floats, seen: NDArray[np.bool_], value: Floats) -> Floats:
    """weight @ value over the pairs seen: a pair that is not seen adds nothing, be the value NaN or infinite."""
    if np.isfinite(value).all():
        return weight @ value
    return np.where(seen[..., None], weight[..., None] * value[:, None], 0.0).sum(2)
