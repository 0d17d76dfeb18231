"""A variant run forward and backward, and held against the float64 oracle: what `attnc run` shows and tests assert."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from attnspec.backends.emitted import Emitted
from attnspec.runtime.draw_inputs import Inputs
from attnspec.runtime.oracle import Answer, Problem, Results, solve
from attnspec.runtime.tolerance import Tolerance, tolerance, tolerance_of_stored
from numpy.typing import NDArray
from torch import Tensor

from attnspec.language.spec import DType

if TYPE_CHECKING:
    from attnspec.api import Attention

# How often a GPU kernel rounds factors of each result to 16 bits: probabilities, d(score), and the output that delta uses.
GPU_ROUNDINGS = {"out": 1, "lse": 0, "q": 3, "k": 3, "v": 1}
GPU_LEARNED_ROUNDINGS = 2
STORED: dict[torch.dtype, DType] = {torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class Row:
    """One result. error: the largest, absolute; allowed: at that element; worst: largest ratio of the two, at most 1 to pass."""

    name: str
    error: float
    allowed: float
    worst: float
    reason: str

    @property
    def is_right(self) -> bool:
        """Whether every element is within its tolerance."""
        return self.worst <= 1.0


def compare(attention: "Attention", inputs: Inputs, forward_only: bool = False) -> tuple[Row, ...]:
    """A row for out and lse and, unless `forward_only`, for each gradient."""
    return judge(attention, inputs, [run(attention, inputs, forward_only)], forward_only)


def judge(attention: "Attention", inputs: Inputs, runs: Sequence[Mapping[str, Tensor]], forward_only: bool) -> tuple[Row, ...]:
    """The rows of results that are there already: of several runs, of each result the one nearest to its tolerance.

    A GPU kernel's gradients of learned tensors are held against those of the forward that it computed itself too.
    """
    call = problem(attention, inputs)
    dout, dlse = (None, None) if forward_only else (as_float64(inputs.dout), as_float64(inputs.dlse))
    answer = solve(call, dout, dlse)
    exact, magnitude, blur = map(named, (answer.exact, answer.magnitude, answer.blur))
    found: dict[str, list[Row]] = {}
    for name, array in runs[0].items():
        allowance = tolerance_of(attention, inputs, answer, name, array.dtype)
        allowed = allowance.allowed(exact[name], magnitude[name], blur[name])
        found[name] = [row(label(name), as_float64(got[name]), exact[name], allowed, allowance.reason) for got in runs]
    if attention.learned and not forward_only and is_gpu(attention, inputs):
        for got in runs:
            stored = solve(call, dout, dlse, (as_float64(got["out"]), as_float64(got["lse"])))
            for name in attention.learned:
                found[name].append(row_of_stored(attention, inputs, stored, name, got[name]))
    return tuple(max(rows, key=lambda one: one.worst) for rows in found.values())


def row_of_stored(attention: "Attention", inputs: Inputs, stored: Answer, name: str, got: Tensor) -> Row:
    """A learned tensor's gradient against that of the stored forward."""
    exact, blur = stored.exact.gradients[name], stored.blur.gradients[name]
    allowance = tolerance_of_stored(*sizes(attention, inputs), stored.largest_score, STORED.get(got.dtype), bool(blur.any()))
    allowed = allowance.allowed(exact, stored.magnitude.gradients[name], stored.spread[name], blur)
    return row(label(name), as_float64(got), exact, allowed, allowance.reason)


def label(name: str) -> str:
    """How a result is shown."""
    return name if name in ("out", "lse") else f"d{name}"


def run(attention: "Attention", inputs: Inputs, forward_only: bool) -> dict[str, Tensor]:
    """Results of the public call, by the oracle's names."""
    learned = attention.learned
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v} | {name: inputs.tensors[name] for name in learned}
    leaves = {name: array.detach().clone().requires_grad_(not forward_only) for name, array in leaves.items()}
    tensors = inputs.tensors | {name: leaves[name] for name in learned}
    out, lse = attention(leaves["q"], leaves["k"], leaves["v"], return_lse=True, **inputs.keywords, **tensors)
    results = {"out": out.detach(), "lse": lse.detach()}
    if not forward_only:
        gradients = torch.autograd.grad((out, lse), list(leaves.values()), (inputs.dout, inputs.dlse))
        results |= dict(zip(leaves, gradients, strict=True))
    return results


def problem(attention: "Attention", inputs: Inputs) -> Problem:
    """The same call for the oracle."""
    tensors = {name: as_array(array) for name, array in inputs.tensors.items()}
    q, k, v = as_float64(inputs.q), as_float64(inputs.k), as_float64(inputs.v)
    keywords: dict[str, Any] = {
        name: value.tolist() if isinstance(value, Tensor) else value for name, value in inputs.keywords.items()
    }
    return Problem(attention.spec, q, k, v, tensors, **keywords)


def named(results: Results) -> Mapping[str, NDArray]:
    """By name."""
    return {"out": results.out, "lse": results.lse} | results.gradients


def as_float64(array: Tensor) -> NDArray[np.float64]:
    """A tensor's values, exactly."""
    return array.detach().cpu().double().numpy()


def as_array(array: Tensor) -> NDArray:
    """A declared tensor as the oracle takes it: float64, int64 or bool."""
    if array.is_floating_point():
        return as_float64(array)
    return array.cpu().numpy() if array.dtype == torch.bool else array.cpu().long().numpy()


def tolerance_of(attention: "Attention", inputs: Inputs, answer: Answer, name: str, dtype: torch.dtype) -> Tolerance:
    """The tolerance of a result by its name and type."""
    spec = attention.spec
    rounds = is_gpu(attention, inputs)
    return tolerance(
        spec.dtype,
        *sizes(attention, inputs),
        answer.largest_score,
        roundings=GPU_ROUNDINGS.get(name, GPU_LEARNED_ROUNDINGS) if rounds else 0,
        stored=STORED.get(dtype),
        flushes=rounds,
        blurs=rounds and bool(named(answer.blur)[name].any()),
        exponential_error=exponential_error(attention, inputs) if rounds else 0.0,
        is_lse=name == "lse",
    )


def exponential_error(attention: "Attention", inputs: Inputs) -> float:
    """Largest relative error of the forward's exponentials beside f32 roundings, as its manifest says."""
    emitted = getattr(attention.kernel_for(inputs.q.device).program, "emitted", None)
    return emitted.manifest["exponential_error"] if isinstance(emitted, Emitted) else 0.0


def is_gpu(attention: "Attention", inputs: Inputs) -> bool:
    """Whether a GPU kernel ran, be it in the emulator."""
    return inputs.q.device.type != "cpu" or attention.on is not None


def sizes(attention: "Attention", inputs: Inputs) -> tuple[int, int]:
    """The longest product and the longest sum."""
    spec = attention.spec
    return max(spec.head_dim, spec.head_dim_v), max(inputs.q.shape[-3], inputs.k.shape[-3])


def row(name: str, got: NDArray, exact: NDArray, allowed: NDArray, reason: str) -> Row:
    """The comparison of one result; a NaN or an infinity must be met by its like."""
    if got.size == 0:
        return Row(name, 0.0, 0.0, 0.0, reason)
    with np.errstate(invalid="ignore"):
        same = (got == exact) | (np.isnan(got) & np.isnan(exact))
        error = np.where(same, 0.0, np.abs(got - exact))
    ratio = np.where(same, 0.0, np.where(np.isfinite(error), error / allowed, np.inf))
    worst = np.unravel_index(int(ratio.argmax()), ratio.shape)
    return Row(name, float(np.nanmax(error)), float(allowed[worst]), float(ratio.max()), reason)
