"""What a choice of the compiler is worth on a Hopper GPU: the same cases with one thing changed at a time.

`python -m benchmarks.hopper_trials [WORD ...]` prints TFLOP/s of each trial whose label has one of the words. Kernels are
compiled in processes of their own, then timed one after another.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import torch
from attnspec.backends.emitted import Emitted
from attnspec.lowering.dataflow import forward_in_registers
from attnspec.lowering.dataflow.forward_in_registers import TileShape
from attnspec.lowering.schedule.complete import complete
from attnspec.lowering.schedule.find_solution import find_solution
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.verify import verify

from attnspec import stages
from benchmarks.hopper import TARGET, TOKENS, Case, cases, compiled, median_time

ANY = 1 << 30  # processors: a CTA for every work tile


@dataclass(frozen=True)
class Trial:
    """changes: of the choices; shape: of tiles, None for the compiler's; is_persistent: CTAs take several tiles."""

    label: str
    case: Case
    changes: dict[str, Any]
    shape: TileShape | None = None
    is_persistent: bool = True


def emitted(trial: Trial) -> Emitted:
    """The module of a trial."""
    shapes, bounded = forward_in_registers.SHAPES, forward_in_registers.BOUNDED
    if trial.shape is not None:
        forward_in_registers.SHAPES, forward_in_registers.BOUNDED = (((256, 256), (trial.shape,)),), trial.shape
    try:
        analysed = stages.analyse(stages.read(trial.case.source))
        question = ask(stages.draw(analysed, "forward", TARGET), analysed, stages.limits_of(TARGET))
        question = replace(question, choices=replace(question.choices, **trial.changes))
        solution, _ = find_solution(question)
        made = complete(question.dataflow, solution, question.choices, question.dims, question.limits)
        return stages.emit(analysed, verify(made, question.limits, question.expected))
    finally:
        forward_in_registers.SHAPES, forward_in_registers.BOUNDED = shapes, bounded


def trials() -> Iterator[Trial]:
    """All of them."""
    for case in cases():
        name = f"{case.name} D{case.head_dim} S{case.length}"
        yield Trial(f"{name} as chosen", case, {})
        for share in (0.25, 0.375, 0.5) if case.name == "softcap" else ():
            yield Trial(f"{name} share {share}", case, {"emulated_share": share})
        if case.name in ("causal", "window"):
            yield Trial(f"{name} one tile a CTA", case, {}, is_persistent=False)
        yield Trial(f"{name} no turns", case, {"takes_turns": False})
        if case.name != "softcap":
            yield Trial(f"{name} always rescaling", case, {"rescale_threshold": 0.0})
        for groups, keys in ((2, 128), (2, 160), (3, 112)) if case.head_dim == 64 else ((2, 128), (2, 144), (2, 160)):
            yield Trial(f"{name} tile {64 * groups}x{keys}", case, {}, TileShape(groups, keys))


def measure(trial: Trial) -> float:
    """TFLOP/s."""
    case, launch = trial.case, compiled(emitted(trial))
    heads, batch = 2048 // case.head_dim, TOKENS // case.length
    sizes = (batch, case.length, heads, case.head_dim)
    q, k, v = (torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(batch, heads, case.length, device="cuda")
    processors = torch.cuda.get_device_properties(0).multi_processor_count if trial.is_persistent else ANY
    seconds = median_time(lambda: launch(q, k, v, out, lse, 0, 0, case.length, case.length, processors))
    return 4.0 * case.visible * case.head_dim * heads * batch / seconds / 1e12


_lock: Any = None


def start(lock: Any) -> None:
    """Keep the lock of the GPU, in each process."""
    global _lock
    _lock = lock


def alone(trial: Trial) -> str:
    """A trial's line: compiled beside others, measured alone."""
    try:
        compiled(emitted(trial))
        with _lock:
            rate = measure(trial)
            torch.cuda.empty_cache()
    except Exception as error:
        return f"{trial.label:50s} {type(error).__name__}: {str(error)[:150]}"
    return f"{trial.label:50s} {rate:7.1f}"


def main() -> None:
    """The command line."""
    wanted = [trial for trial in trials() if not sys.argv[1:] or any(word in trial.label for word in sys.argv[1:])]
    context = get_context("spawn")
    with ProcessPoolExecutor(12, mp_context=context, initializer=start, initargs=(context.Lock(),)) as pool:
        for line in pool.map(alone, wanted):
            print(line, flush=True)


if __name__ == "__main__":
    main()
