"""`python benchmarks/emulator.py`: how long the emulator takes for a forward of head dimension 128, and how that grows.

The bars: 512 x 512, one head, on two cores, after compile: 2 s with all checks, 0.8 s in program order without any; time linear
in the tiles; several CTAs use both cores.
"""

import os
import time
from typing import Any

import torch
from attnspec.emulator.launch import launch
from attnspec.emulator.report import Report
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments

import attnspec
from attnspec import stages

VARIANT = "attention dense\nhead_dim 128\n"
BARS = {"all": 2.0, "none": 0.8}  # seconds
REPEATS = 3


def compiled() -> tuple[attnspec.Attention, EmulatedProgram]:
    """The variant and its kernel; compiled here, outside of what is measured."""
    attention = attnspec.build(VARIANT, on="emulator")
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    program.binary  # noqa: B018
    return attention, program


def run(attention: attnspec.Attention, program: EmulatedProgram, length: int, heads: int, ctas: int, **options: Any) -> Report:
    """One call of a square, and its report."""
    q, k, v = (torch.randn(1, length, heads, 128).bfloat16() for _ in range(3))
    call = Call(q, k, v, (), check_call(attention.spec, q, k, v, Placing()), False)
    out, lse = empty_results(call, 128)
    return launch(program.binary.compiled, *forward_arguments(call, out, lse), ctas, names=program.names, **options).check()


def worked() -> float:
    """Seconds of processors that this process and those it forked took."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def measured(*call: Any, **options: Any) -> tuple[float, float, int]:
    """(seconds, seconds of processors, warp instructions) of the fastest of a few runs."""
    found = []
    for _ in range(REPEATS):
        start, before = time.perf_counter(), worked()
        report = run(*call, **options)
        found.append((time.perf_counter() - start, worked() - before, report.launches[0].instructions))
    return min(found)


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    kernel = compiled()
    start = time.perf_counter()
    run(*kernel, 256, 1, 1, checks="none")
    print(f"first run, which translates the PTX: {time.perf_counter() - start:.2f} s\n")
    print("length  heads  CTAs  processes  checks  seed  seconds  of processors  instructions  a second  bar")
    for length, heads, ctas, workers, checks, seed in (
        *((512, 1, 1, 1, checks, None) for checks in ("none", "all")),
        (512, 1, 1, 1, "all", 7),
        *((length, 1, 1, 1, checks, None) for checks in ("none", "all") for length in (1024, 2048)),
        *((512, 8, 8, workers, checks, None) for checks in ("none", "all") for workers in (1, 2)),
    ):
        seconds, spent, count = measured(*kernel, length, heads, ctas, workers=workers, checks=checks, seed=seed)
        row = f"{length:6}  {heads:5}  {ctas:4}  {workers:9}  {checks:6}  {'-' if seed is None else seed:>4}  {seconds:7.2f}"
        bar = BARS[checks] if (length, heads, seed) == (512, 1, None) else None
        verdict = "" if bar is None else f"{bar} s: {'held' if seconds <= bar else 'MISSED'}"
        print(f"{row}  {spent:13.2f}  {count:12,}  {count / spent:8,.0f}  {verdict}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
