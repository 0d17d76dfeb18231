"""Contenders one after the other on the same inputs: medians of their times, and how far their outputs lie from ours."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnspec.api import Attention
from attnspec.bench.contenders import Contender, contenders
from attnspec.bench.visible import visible_scores
from attnspec.language.spec import Spec
from attnspec.runtime.draw_inputs import Inputs

WARM_UPS, ROUNDS, REPEATS = 3, 7, 10
FAR = 0.05  # of the largest output: beyond the roundings of any of them, a contender computes something else
LONG = 160  # characters of a failure that are shown
Clock = Callable[[Callable[[], object]], float]


@dataclass(frozen=True)
class Result:
    """One contender. Seconds of a call, None where there are none; far: largest distance of its output from ours, relative to
    the largest output; reason: why there are no times.
    """

    name: str
    forward: float | None = None
    backward: float | None = None
    far: float | None = None
    reason: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it computes what ours does."""
        return self.far is None or self.far <= FAR


@dataclass(frozen=True)
class Race:
    """All of one variant. visible, all_scores: of the call. flops: of a forward and of a backward, of visible scores alone."""

    spec: Spec
    visible: int
    all_scores: int
    flops: tuple[float, float]
    results: tuple[Result, ...]


def race(attention: Attention, inputs: Inputs, *, backward: bool, clock: Clock, is_compiled: bool = True) -> Race:
    """Time all that can run. A contender that fails is kept, with what it said."""
    spec = attention.spec
    if backward:
        inputs = with_gradients(spec, inputs)
    visible, width, width_v = visible_scores(spec, inputs), spec.head_dim, spec.head_dim_v
    flops = (2.0 * visible * (width + width_v), 2.0 * visible * (3 * width + 2 * width_v))
    leaves = [array for array in (inputs.q, inputs.k, inputs.v, *inputs.tensors.values()) if array.requires_grad]
    results: list[Result] = []
    expected: Tensor | None = None
    for one in contenders(attention, inputs, is_compiled=is_compiled):
        result, out = run(one, leaves, inputs, expected, clock)
        expected = out if expected is None else expected
        results.append(result)
    every = inputs.q.shape[-2] * (inputs.q.shape[1] * inputs.k.shape[1] * len(inputs.q) if not spec.is_varlen else 0)
    return Race(spec, visible, every, flops, tuple(results))


def with_gradients(spec: Spec, inputs: Inputs) -> Inputs:
    """The same with leaves that receive gradients."""
    q, k, v = (array.detach().requires_grad_() for array in (inputs.q, inputs.k, inputs.v))
    learned = {tensor.name for tensor in spec.learned}
    tensors = {name: array.detach().requires_grad_(name in learned) for name, array in inputs.tensors.items()}
    return replace(inputs, q=q, k=k, v=v, tensors=tensors)


def run(
    one: Contender, leaves: list[Tensor], inputs: Inputs, expected: Tensor | None, clock: Clock
) -> tuple[Result, Tensor | None]:
    """One contender's times and output."""
    if one.call is None:
        return Result(one.name, reason=one.reason), None
    result, out = Result(one.name), None
    try:
        out = one.call()
        far = None if expected is None else distance(out, expected)
        forward = clock(one.call) if not leaves else clock(without_gradients(one.call))
        result = Result(one.name, forward, None, far)
        if leaves:
            result = replace(result, backward=clock(lambda: torch.autograd.grad(out, leaves, inputs.dout, retain_graph=True)))
    except Exception as error:  # a peer that cannot is a row of the table, whatever it raises
        said = " ".join(f"{type(error).__name__}: {error}".split())
        result = replace(result, reason=f"fails: {said[:LONG]}")
    return result, None if out is None else out.detach()


def without_gradients(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The call as inference makes it."""

    def quiet() -> Tensor:
        with torch.no_grad():
            return call()

    return quiet


def distance(out: Tensor, expected: Tensor) -> float:
    """The largest, relative to the largest expected."""
    largest = expected.float().abs().max().item()
    return (out.float() - expected.float()).abs().max().item() / max(largest, 1e-30)


def gpu_clock(call: Callable[[], object]) -> float:
    """Seconds of one call on the GPU: the median of rounds of several."""
    for _ in range(WARM_UPS):
        call()
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(REPEATS):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / REPEATS / 1e3)
    return sorted(times)[len(times) // 2]


def host_clock(call: Callable[[], object]) -> float:
    """Seconds of one call by the host's clock, where there is no GPU to wait for."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
