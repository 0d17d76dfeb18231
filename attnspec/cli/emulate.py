"""attnc run --on emulator: one draw of inputs through the kernel's PTX, in program order and with seeds of the timing."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from attnspec.cli.progress import Progress
from attnspec.cli.table import table

if TYPE_CHECKING:
    from torch import Tensor

    from attnspec.api import Attention
    from attnspec.emulator.report import Fault
    from attnspec.runtime.compare import Row
    from attnspec.runtime.draw_inputs import Inputs

MOST_TOLD = 5  # faults printed in full


@dataclass(frozen=True)
class Timing:
    """One run. seed: None is program order. same: whether the results have the bits of program order, None if there are none."""

    seed: int | None
    seconds: float
    instructions: int
    faults: "tuple[Fault, ...]"
    same: bool | None

    @property
    def is_good(self) -> bool:
        """Nothing is wrong with it."""
        return not self.faults and self.same is not False

    @property
    def name(self) -> str:
        """In words."""
        return "program order" if self.seed is None else f"seed {self.seed}"


@dataclass(frozen=True)
class Emulated:
    """rows: results of program order against the oracle, none if it had a fault."""

    timings: tuple[Timing, ...]
    rows: "tuple[Row, ...]"

    @property
    def is_right(self) -> bool:
        """All bits the same, all numbers right, no fault."""
        return all(one.is_good for one in self.timings) and all(row.is_right for row in self.rows)


def emulate(attention: "Attention", inputs: "Inputs", seeds: int, forward_only: bool) -> Emulated:
    """Run in program order, then with timings of seeds 1 to `seeds`. Progress is shown on a terminal."""
    from attnspec.runtime.compare import judge

    progress = Progress()
    progress.show("compiling, and running in program order")
    first, results = run_once(attention, inputs, None, forward_only, None)
    timings = [first]
    for seed in range(1, seeds + 1):
        bad = sum(not one.is_good for one in timings)
        progress.show(f"seed {seed} of {seeds}" + (f", {bad} with faults" if bad else ""))
        timings.append(run_once(attention, inputs, seed, forward_only, results)[0])
    rows = () if results is None else judge(attention, inputs, results, forward_only)
    progress.clear()
    return Emulated(tuple(timings), rows)


def run_once(
    attention: "Attention", inputs: "Inputs", seed: int | None, forward_only: bool, right: "dict[str, Tensor] | None"
) -> "tuple[Timing, dict[str, Tensor] | None]":
    """One timing and its results, None if the emulator found a fault. right: of program order, to compare bits with."""
    import torch

    from attnspec.emulator.report import FaultsFound
    from attnspec.runtime.compare import run
    from attnspec.runtime.emulation import emulation

    start, results, same = time.perf_counter(), None, None
    with emulation(seed) as ran:
        try:
            results = run(attention, inputs, forward_only)
        except FaultsFound as found:
            ran.reports.extend(() if found.report in ran.reports else (found.report,))
    if results is not None and right is not None:
        same = all(torch.equal(one.view(torch.uint8), right[name].view(torch.uint8)) for name, one in results.items())
    instructions = sum(launch.instructions for report in ran.reports for launch in report.launches)
    faults = tuple(fault for report in ran.reports for fault in report.faults)
    return Timing(seed, time.perf_counter() - start, instructions, faults, same), results


def as_lines(found: Emulated) -> Iterator[str]:
    """A table of the timings, and what went wrong."""
    head = ("timing", "runs", "warp instructions", "seconds", "bits", "faults")
    yield table(head, map(timing_row, groups(found.timings)), right=(1, 2, 3))
    told: set[str] = set()
    for one in found.timings:
        for fault in one.faults:
            text = str(fault)
            if text not in told and len(told) < MOST_TOLD:
                told.add(text)
                yield f"\n{one.name}:\n{text}"
    left = len({str(fault) for one in found.timings for fault in one.faults}) - len(told)
    if left:
        yield f"\n{left} more faults; --json has all of them"


def groups(timings: Sequence[Timing]) -> list[list[Timing]]:
    """Program order, the seeds that are good, and of those that are not each kind of failure together."""
    found: dict[Any, list[Timing]] = {}
    for one in timings:
        found.setdefault((one.seed is None, one.same, kinds(one)), []).append(one)
    return list(found.values())


def kinds(one: Timing) -> str:
    """Names of a run's faults."""
    return ", ".join(dict.fromkeys(fault.kind for fault in one.faults)) or "none"


def timing_row(group: Sequence[Timing]) -> tuple[str, ...]:
    """Runs that went alike."""
    first = group[0]
    seeds = [one.seed for one in group if one.seed is not None]
    name = f"seeds {runs_of(seeds)}" if len(seeds) > 1 else first.name
    bits = {None: "", True: "those of program order", False: "OTHERS"}[first.same]
    counts = f"{sum(one.instructions for one in group):,}", f"{sum(one.seconds for one in group):.1f}"
    return name, str(len(group)), *counts, bits, kinds(first)


def runs_of(numbers: Sequence[int]) -> str:
    """`1 to 4, 7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


def failures(found: Emulated) -> str:
    """What is wrong, in a few words; nothing if all is right."""
    faulty = sum(bool(one.faults) for one in found.timings)
    others = sum(one.same is False for one in found.timings)
    wrong = [row.name for row in found.rows if not row.is_right]
    parts = [f"the emulator found faults in {faulty} of {len(found.timings)} runs"] if faulty else []
    parts += [f"{others} timings give other bits than program order"] if others else []
    parts += [f"{', '.join(wrong)} beyond the tolerance"] if wrong else []
    return "; ".join(parts)


def timings_as_list(found: Emulated) -> list[dict[str, Any]]:
    """The same for machines."""
    return [
        {
            "seed": one.seed,
            "seconds": round(one.seconds, 3),
            "warp_instructions": one.instructions,
            "same_bits": one.same,
            "faults": [{**asdict(fault), "report": str(fault)} for fault in one.faults],
        }
        for one in found.timings
    ]
