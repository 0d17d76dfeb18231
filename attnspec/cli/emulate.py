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
    """One run. seed: None is program order. others: results whose bits are not those of program order, None without results;
    summed: of these, those that are sums by atomics, whose order is free."""

    seed: int | None
    seconds: float
    instructions: int
    faults: "tuple[Fault, ...]"
    others: tuple[str, ...] | None
    summed: tuple[str, ...] = ()

    @property
    def strange(self) -> tuple[str, ...]:
        """Results that should have had the bits of program order."""
        return tuple(name for name in self.others or () if name not in self.summed)

    @property
    def is_good(self) -> bool:
        """Nothing is wrong with it."""
        return not self.faults and not self.strange

    @property
    def name(self) -> str:
        """In words."""
        return "program order" if self.seed is None else f"seed {self.seed}"


@dataclass(frozen=True)
class Emulated:
    """rows: results against the oracle, of each the worst of all timings; none if program order had a fault."""

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
    first, right = run_once(attention, inputs, None, forward_only, None)
    timings, different = [first], [] if right is None else [right]
    for seed in range(1, seeds + 1):
        bad = sum(not one.is_good for one in timings)
        progress.show(f"seed {seed} of {seeds}" + (f", {bad} with faults" if bad else ""))
        timing, results = run_once(attention, inputs, seed, forward_only, right)
        timings.append(timing)
        different += [results] if timing.others and results is not None else []
    rows = () if right is None else judge(attention, inputs, different, forward_only)
    progress.clear()
    return Emulated(tuple(timings), rows)


def run_once(
    attention: "Attention", inputs: "Inputs", seed: int | None, forward_only: bool, right: "dict[str, Tensor] | None"
) -> "tuple[Timing, dict[str, Tensor] | None]":
    """One timing and its results, None if the emulator found a fault. right: of program order, to compare bits with."""
    import torch

    from attnspec.emulator.report import FaultsFound
    from attnspec.runtime.compare import label, run
    from attnspec.runtime.emulation import emulation

    start, results, others = time.perf_counter(), None, None
    with emulation(seed) as ran:
        try:
            results = run(attention, inputs, forward_only)
        except FaultsFound as found:
            ran.reports.extend(() if found.report in ran.reports else (found.report,))
    if results is not None and right is not None:
        others = tuple(label(name) for name, one in results.items() if not torch.equal(bits(one), bits(right[name])))
    instructions = sum(launch.instructions for report in ran.reports for launch in report.launches)
    faults = tuple(fault for report in ran.reports for fault in report.faults)
    summed = tuple(map(label, ("q", *attention.learned)))
    return Timing(seed, time.perf_counter() - start, instructions, faults, others, summed), results


def bits(tensor: "Tensor") -> "Tensor":
    """A tensor's bytes."""
    import torch

    return tensor.detach().contiguous().view(torch.uint8)


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
        found.setdefault((one.seed is None, one.others, kinds(one)), []).append(one)
    return list(found.values())


def kinds(one: Timing) -> str:
    """Names of a run's faults."""
    return ", ".join(dict.fromkeys(fault.kind for fault in one.faults)) or "none"


def timing_row(group: Sequence[Timing]) -> tuple[str, ...]:
    """Runs that went alike."""
    first = group[0]
    seeds = [one.seed for one in group if one.seed is not None]
    name = f"seeds {runs_of(seeds)}" if len(seeds) > 1 else first.name
    told = "" if first.others is None else "as in program order"
    if first.others:
        told = (
            f"OTHERS: {', '.join(first.strange)}" if first.strange else f"but for {', '.join(first.others)} (sums in any order)"
        )
    counts = f"{sum(one.instructions for one in group):,}", f"{sum(one.seconds for one in group):.1f}"
    return name, str(len(group)), *counts, told, kinds(first)


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
    others = sum(bool(one.strange) for one in found.timings)
    wrong = [row.name for row in found.rows if not row.is_right]
    parts = [f"the emulator found faults in {faulty} of {len(found.timings)} runs"] if faulty else []
    parts += [f"{others} of {len(found.timings) - 1} timings give other bits than program order"] if others else []
    parts += [f"{', '.join(wrong)} beyond the tolerance"] if wrong else []
    return "; ".join(parts)


def timings_as_list(found: Emulated) -> list[dict[str, Any]]:
    """The same for machines."""
    return [
        {
            "seed": one.seed,
            "seconds": round(one.seconds, 3),
            "warp_instructions": one.instructions,
            "other_bits": None if one.others is None else list(one.others),
            "faults": [{**asdict(fault), "report": str(fault)} for fault in one.faults],
        }
        for one in found.timings
    ]
