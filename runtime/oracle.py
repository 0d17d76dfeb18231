"""The float64 oracle: attention of a spec computed the plain way, forward and backward, with error magnitudes.

Every score of a sequence is held at once and every expression is evaluated where it stands; nothing is tiled, skipped or
derived. It shares no code with the analyses and the backends: it imports the language's types and numpy alone.

Besides each result it gives the result's magnitude: the same sum with every term made positive. Rounding errors of any
sane evaluation order are a small multiple of it, which is what `attnspec.runtime.tolerance` needs. And it gives what a GPU's
approximation of tanh comes to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from attnspec.runtime.oracle_backward import SCORE, Backward, Scored, gradients, product
from attnspec.runtime.oracle_blur import approximated, forward_off, gradients_off
from attnspec.runtime.oracle_expression import Dual, evaluate
from numpy.typing import NDArray

from attnspec.language.expr import Expr
from attnspec.language.spec import Spec

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """One call. q, k, v as the API takes them: (batch, length, heads, head_dim), or (total, heads, head_dim) packed.

    tensors: arrays by declared name: float64, int64 or bool, of the declared rank. cu_seqlens_*: packed only.
    q_offset, kv_offset: global position of the first row given; len_q, len_kv: whole lengths (default: offset + rows).
    """

    spec: Spec
    q: Floats
    k: Floats
    v: Floats
    tensors: Mapping[str, NDArray] = field(default_factory=dict)
    cu_seqlens_q: Sequence[int] | None = None
    cu_seqlens_kv: Sequence[int] | None = None
    q_offset: int = 0
    kv_offset: int = 0
    len_q: int | None = None
    len_kv: int | None = None


@dataclass(frozen=True)
class Results:
    """out as q with the value width; lse (batch, heads, len_q) or (heads, total_q); gradients by tensor name.

    Gradients: "q", "k", "v" and each learned tensor.
    """

    out: Floats
    lse: Floats
    gradients: dict[str, Floats]


@dataclass(frozen=True)
class Answer:
    """exact: the results. magnitude: the same sums of absolute terms. largest_score: of any visible pair, in absolute terms.

    spread: of each learned tensor's gradient, the root of the sum over rows of the squares of what a row adds in absolute terms:
    how far errors that are independent from row to row carry. blur: how far each result may be off by a GPU's tanh.
    """

    exact: Results
    magnitude: Results
    largest_score: float
    spread: dict[str, Floats]
    blur: Results


@dataclass(frozen=True)
class Portion:
    """One sequence's share: (heads, rows, head_dim) arrays and the values of the given names that are numbers."""

    q: Floats
    k: Floats
    v: Floats
    sizes: dict[str, int]
    q_offset: int
    kv_offset: int


def solve(
    problem: Problem, dout: Floats | None = None, dlse: Floats | None = None, stored: tuple[Floats, Floats] | None = None
) -> Answer:
    """Forward results, and gradients of sum(out * dout) + sum(lse * dlse) if dout is given (dlse defaults to 0).

    stored: out and lse as a kernel rounded and stored them. A backward works from these, so the gradients are then those that it
    would give without an error of its own: probabilities exp(score - lse), and delta from out.
    """
    spec = problem.spec
    out = np.zeros((*problem.q.shape[:-1], spec.head_dim_v))
    packed = problem.cu_seqlens_q is not None
    lse = np.zeros(out.shape[:-1]).swapaxes(-1, -2)
    gradients = {"q": np.zeros_like(problem.q), "k": np.zeros_like(problem.k), "v": np.zeros_like(problem.v)}
    gradients |= {tensor.name: np.zeros(problem.tensors[tensor.name].shape) for tensor in spec.learned}
    exact = Results(out, lse, gradients)
    magnitude, blur = (Results(out.copy(), lse.copy(), {name: one.copy() for name, one in gradients.items()}) for _ in range(2))
    largest, spread = 0.0, {tensor.name: np.zeros(problem.tensors[tensor.name].shape) for tensor in spec.learned}
    for b in range(batch_of(problem)):
        rows, keys = slices(problem, b)
        sequence = take(problem, b)
        lse_rows = (slice(None), rows) if packed else (b, slice(None))
        upstream = None
        if dout is not None:
            upstream = (by_head(dout[rows]), np.zeros_like(lse[lse_rows]) if dlse is None else dlse[lse_rows])
        kept = None if stored is None else (by_head(stored[0][rows]), stored[1][lse_rows])
        found = solve_sequence(spec, sequence, problem.tensors, upstream, kept)
        for whole, part in ((exact, found.exact), (magnitude, found.magnitude), (blur, found.blur)):
            whole.out[rows] = by_row(part.out)
            whole.lse[lse_rows] = part.lse
            for name, value in part.gradients.items():
                if name in ("q", "k", "v"):
                    whole.gradients[name][rows if name == "q" else keys] = by_row(value)
                else:
                    whole.gradients[name] += value
        for name, value in found.spread.items():
            spread[name] = np.hypot(spread[name], value)
        largest = max(largest, found.largest_score)
    return Answer(exact, magnitude, largest, spread, blur)


def solve_sequence(
    spec: Spec,
    part: Portion,
    tensors: Mapping[str, NDArray],
    upstream: tuple[Floats, Floats] | None,
    stored: tuple[Floats, Floats] | None = None,
) -> Answer:
    """One sequence; arrays (heads, rows, ...), k and v gradients (kv_heads, rows, ...)."""
    learned = frozenset(tensor.name for tensor in spec.learned)
    heads, group = len(part.q), len(part.q) // max(1, len(part.k))
    k, v = np.repeat(part.k, group, 0), np.repeat(part.v, group, 0)
    raw = part.q @ k.swapaxes(1, 2)
    names = names_of(part, heads, group)
    scored = score_pairs(spec, raw, names, tensors, learned)
    others = [score_pairs(spec, raw, names, tensors, learned, off) for off in approximated(spec)]
    visible = np.bool_(True) if spec.mask is None else evaluate(spec.mask, scored.given, tensors).value
    with np.errstate(all="ignore"):
        masked = np.where(visible, scored.score.value, -np.inf) + np.zeros(raw.shape)
        seen = masked != -np.inf
        probability, lse, sink_probability = softmax(masked, scored.sink)
        probability = np.where(seen, probability, 0.0)
        out = product(probability, seen, v)
        slope = np.abs(scored.score.slopes.get(SCORE, 0.0))
        slack = np.abs(scored.scale) * (np.abs(part.q) @ np.abs(k).swapaxes(1, 2)) * slope
        size = np.where(seen, slack + np.abs(np.where(seen, masked, 0.0)), 0.0)
        largest = float(size[np.isfinite(size)].max(initial=0.0))
        magnitude = Results(product(probability, seen, np.abs(v)), 1.0 + np.abs(np.where(np.isinf(lse), 0.0, lse)), {})
        exact, spread = Results(out, lse, {}), {}
        if stored is not None:
            probability, sink_probability = probabilities(masked, seen, scored.sink, stored[1])
        state = Backward((part.q, k, v), (len(part.k), group), tensors, learned, scored, seen, probability, sink_probability)
        off = forward_off(state, others, stored is not None)
        blur = Results(off.out, off.lse, {})
        if upstream is not None:
            left = out if stored is None else stored[0]
            exact.gradients.update(gradients(left, state, *upstream))
            spread = {name: np.zeros(tensors[name].shape) for name in learned}
            magnitude.gradients.update(gradients(magnitude.out, state, *upstream, spread))
            blur.gradients.update(gradients_off(state, others, off, left, *upstream) if others else {})
    return Answer(exact, magnitude, largest, spread, blur)


def score_pairs(
    spec: Spec,
    raw: Floats,
    names: Mapping[str, object],
    tensors: Mapping[str, NDArray],
    learned: frozenset[str],
    off: Expr | None = None,
) -> Scored:
    """Scores of q . k before the mask, and the sink's. off: see `evaluate`."""
    scale = evaluate(spec.scale, names, tensors, learned, off)
    seeds = {SCORE: np.ones_like(raw)} | {seed: raw * slope for seed, slope in scale.slopes.items()}
    given = {**names, "scale": scale, "score": Dual(raw * scale.value, seeds)}
    sink = None if spec.sink is None else evaluate(spec.sink, given, tensors, learned, off)
    return Scored(evaluate(spec.score, given, tensors, learned, off), scale.value, sink, given)


def softmax(score: Floats, sink: Dual | None) -> tuple[Floats, Floats, Floats]:
    """Probabilities (heads, q, kv), LSE (heads, q), and the sink's share (heads, q), 0 without one; empty rows are 0."""
    row_max = score.max(-1, initial=-np.inf)
    sink_score = np.full(row_max.shape, -np.inf) if sink is None else np.broadcast_to(sink.value, (*row_max.shape, 1))[..., 0]
    row_max = np.maximum(row_max, sink_score)
    shift = np.where(row_max == -np.inf, 0.0, row_max)
    weight, sink_weight = np.exp(score - shift[..., None]), np.exp(sink_score - shift)
    total = weight.sum(-1) + sink_weight
    safe = np.where(total == 0, 1.0, total)
    return weight / safe[..., None], shift + np.log(total), sink_weight / safe


def probabilities(score: Floats, seen: NDArray[np.bool_], sink: Dual | None, lse: Floats) -> tuple[Floats, Floats]:
    """Those of a stored log-sum-exp, as `softmax` gives them; 0 in a row with nothing visible."""
    shift = np.where(np.isinf(lse), 0.0, lse)
    sink_score = np.full(lse.shape, -np.inf) if sink is None else np.broadcast_to(sink.value, (*lse.shape, 1))[..., 0]
    return np.where(seen, np.exp(score - shift[..., None]), 0.0), np.exp(sink_score - shift)


def names_of(part: Portion, heads: int, group: int) -> dict[str, object]:
    """Values of the given names, shaped to broadcast over (heads, q, kv)."""
    h = np.arange(heads)[:, None, None]
    q = part.q_offset + np.arange(part.q.shape[1])[None, :, None]
    kv = part.kv_offset + np.arange(part.k.shape[1])[None, None, :]
    return {**{name: np.int64(size) for name, size in part.sizes.items()}, "h": h, "hkv": h // group, "q": q, "kv": kv}


def batch_of(problem: Problem) -> int:
    """How many sequences."""
    return len(problem.q) if problem.cu_seqlens_q is None else len(problem.cu_seqlens_q) - 1


def slices(problem: Problem, b: int) -> tuple[int | slice, int | slice]:
    """Where a sequence lies in q and out, and in k and v."""
    if problem.cu_seqlens_q is None or problem.cu_seqlens_kv is None:
        return b, b
    return slice(*problem.cu_seqlens_q[b : b + 2]), slice(*problem.cu_seqlens_kv[b : b + 2])


def take(problem: Problem, b: int) -> Portion:
    """One sequence of the call."""
    rows, keys = slices(problem, b)
    q, k, v = by_head(problem.q[rows]), by_head(problem.k[keys]), by_head(problem.v[keys])
    len_q = problem.q_offset + q.shape[1] if problem.len_q is None else problem.len_q
    len_kv = problem.kv_offset + k.shape[1] if problem.len_kv is None else problem.len_kv
    sizes = {"batch": batch_of(problem), "b": b, "heads": len(q), "kv_heads": len(k), "len_q": len_q, "len_kv": len_kv}
    return Portion(q, k, v, sizes, problem.q_offset, problem.kv_offset)


def by_head(array: Floats) -> Floats:
    """(rows, heads, width) to (heads, rows, width)."""
    return array.swapaxes(0, 1)


def by_row(array: Floats) -> Floats:
    """(heads, rows, width) to (rows, heads, width)."""
    return array.swapaxes(0, 1)
