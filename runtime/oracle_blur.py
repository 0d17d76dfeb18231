"""How far the results of one sequence may be off since a GPU approximates tanh: to first order, element by element.

Each call of such a function is off by as much as it may be, one at a time, and what that does to a score, its slopes and the sink
is summed up in absolute terms. A score that is off by e makes the weight of its pair off by exp(e) - 1 of itself; the sum of a
row is off by the share of each weight; every gradient takes both, and what its own slopes are off by.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.runtime.oracle_backward import SCORE, Backward, Scored, Terms, add_up, product
from attnspec.runtime.oracle_expression import APPROXIMATED, Dual
from numpy.typing import NDArray

from attnspec.language.expr import Call, Expr, nodes
from attnspec.language.spec import Spec

Floats = NDArray[np.float64]
NOTHING = Dual(0.0)


def approximated(spec: Spec) -> tuple[Expr, ...]:
    """The calls of functions that a GPU approximates, each once."""
    places = [place for place in (spec.scale, spec.score, spec.sink) if place is not None]
    found = [at for place in places for at in nodes(place) if isinstance(at, Call) and at.function in APPROXIMATED]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Off:
    """How far probabilities of pairs and of the sink are off, the row's log-sum-exp and out."""

    probability: Floats
    sink_probability: Floats
    lse: Floats
    out: Floats


def forward_off(state: Backward, others: Sequence[Scored], is_stored: bool) -> Off:
    """others: as scored with one function off. is_stored: out and lse are given, as the kernel has them, and not off."""
    p, sink_p = state.probability, state.sink_probability
    score_off = away(state.scored, others, lambda one: one.score.value)
    weight = np.where(state.seen, p * np.expm1(score_off), 0.0)
    sink_off = away(state.scored, others, lambda one: (one.sink or NOTHING).value)
    sink_weight = sink_p * np.expm1(np.broadcast_to(sink_off, (*sink_p.shape, 1))[..., 0])
    if is_stored:
        return Off(weight, sink_weight, np.zeros_like(sink_p), np.zeros((*sink_p.shape, state.arrays[2].shape[-1])))
    row = weight.sum(-1) + sink_weight
    weight = weight + p * row[..., None]
    out = product(weight, state.seen, np.abs(state.arrays[2]))
    return Off(weight, sink_weight + sink_p * row, row, out)


def gradients_off(
    state: Backward, others: Sequence[Scored], off: Off, out: Floats, dout: Floats, dlse: Floats
) -> dict[str, Floats]:
    """By name. out: what delta was made of."""
    q, k, v = state.arrays
    given = dlse - (dout * out).sum(-1)
    given_off = (np.abs(dout) * off.out).sum(-1)
    per_weight = dout @ v.swapaxes(1, 2) + given[..., None]
    dscore = np.abs(state.probability * per_weight)
    dscore_off = off.probability * np.abs(per_weight) + state.probability * given_off[..., None]
    dsink = np.abs(state.sink_probability * given)[..., None]
    dsink_off = (off.sink_probability * np.abs(given) + state.sink_probability * given_off)[..., None]

    def term(size: Floats, size_off: Floats, slope: Callable[[Scored], Any]) -> Floats:
        return size_off * np.abs(slope(state.scored)) + size * away(state.scored, others, slope)

    terms = Terms(
        raw=term(dscore, dscore_off, lambda one: one.score.slopes.get(SCORE, 0.0) * one.scale),
        value=off.probability,
        reads={
            seed: term(dscore, dscore_off, lambda one, seed=seed: one.score.slopes[seed])
            for seed in state.scored.score.slopes
            if seed != SCORE
        },
        sinks={
            seed: term(dsink, dsink_off, lambda one, seed=seed: (one.sink or NOTHING).slopes[seed])
            for seed in (state.scored.sink or NOTHING).slopes
        },
    )
    terms = Terms(np.where(state.seen, terms.raw, 0.0), terms.value, terms.reads, terms.sinks)
    found = add_up(state, terms, (np.abs(q), np.abs(k), np.abs(dout)))
    return {name: np.nan_to_num(array, nan=0.0, posinf=0.0) for name, array in found.items()}


def away(one: Scored, others: Sequence[Scored], get: Callable[[Scored], Any]) -> Floats:
    """How far something is away from where it is, over all the others; what is not finite is not."""
    at = np.asarray(get(one))
    found = sum((np.abs(get(other) - at) for other in others), np.zeros(at.shape))
    return np.nan_to_num(found, nan=0.0, posinf=0.0)
