"""`python -m tests.emulator.mutate VARIANT[:backward] [PATTERN]`: drop one synchronisation at a time, and see who notices.

Each mutant of a kernel runs on a few calls in program order, then with seeds, until some check fires or a result differs by a bit
from that of the kernel as it is. Any function that `cute.compile` returned can be a `Subject`; ours are those of variants.
"""

import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.host import ptx_of
from attnspec.emulator.launch import CHECKS, PEDANTIC, launch
from attnspec.emulator.report import Report

from tests.emulator.mutants import Mutant, mutants

SECONDS = 120  # of processor time, in which one run ends or hangs: a busy machine is no verdict
SEEDS = (None, 0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Call:
    """arguments: as the compiled function takes them, in the state before the call. checks: that are on."""

    arguments: tuple[Any, ...]
    checks: frozenset[str] = CHECKS | PEDANTIC


@dataclass(frozen=True)
class Verdict:
    """found: names of faults, `numbers`, `hang`; nothing if no run noticed. seed: of the run that did. ran: the line was run."""

    mutant: Mutant
    found: tuple[str, ...]
    seed: int | None
    ran: bool

    def __str__(self) -> str:
        found = ", ".join(self.found) or ("NOT NOTICED" if self.ran else "not run")
        seed = "program order" if self.seed is None else f"seed {self.seed}"
        return f"{self.mutant.kind:32} line {self.mutant.line:5} {found}{f' ({seed})' if self.found else ''}"


@dataclass(frozen=True)
class Subject:
    """A compiled function, of one kernel, and calls of it."""

    compiled: Any
    calls: tuple[Call, ...]

    @cached_property
    def text(self) -> str:
        return ptx_of(self.compiled)

    @cached_property
    def right(self) -> list[list[torch.Tensor]]:
        """Tensors after each call, by the kernel as it is."""
        return [results for _, results in self.whole]

    @cached_property
    def whole(self) -> list[tuple[Report, list[torch.Tensor]]]:
        """Each call by the kernel as it is, in program order."""
        return [self.run(call, None, None) for call in range(len(self.calls))]

    @cached_property
    def lines(self) -> frozenset[int]:
        """Lines that the calls run."""
        return frozenset().union(*(launched.lines for report, _ in self.whole for launched in report.launches))

    def run(self, call: int, seed: int | None, ptx: str | None) -> tuple[Report, list[torch.Tensor]]:
        """The report, and all tensors after it."""
        copies: list[torch.Tensor] = []
        arguments = [copied(one, copies) for one in self.calls[call].arguments]
        return launch(self.compiled, *arguments, seed=seed, checks=self.calls[call].checks, ptx=ptx), copies

    def examine(self, mutant: Mutant, seeds: Sequence[int | None]) -> Verdict:
        """Run a mutant until something is noticed."""
        for seed in seeds if mutant.line in self.lines else ():
            for call in range(len(self.calls)):
                found = self.notice(mutant, call, seed)
                if found:
                    return Verdict(mutant, found, seed, True)
        return Verdict(mutant, (), None, mutant.line in self.lines)

    def notice(self, mutant: Mutant, call: int, seed: int | None) -> tuple[str, ...]:
        """What one run gives away."""
        self.right  # noqa: B018  made before the clock starts
        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            report, results = self.run(call, seed, mutant.ptx)
        except TimeoutError:
            return ("hang",)
        except EmulatorError as error:
            return (type(error).__name__,)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found = list(dict.fromkeys(fault.kind for fault in report.faults))
        same = all(torch.equal(bytes_of(one), bytes_of(two)) for one, two in zip(results, self.right[call], strict=True))
        if not same and "deadlock" not in found:
            found.append("numbers")
        return tuple(found)

    def verdicts(self, pattern: str = "", seeds: Sequence[int | None] = SEEDS) -> Iterator[Verdict]:
        """Of all mutants whose kind matches."""
        for mutant in mutants(self.text):
            if re.search(pattern, f"{mutant.kind} line {mutant.line}"):
                yield self.examine(mutant, seeds)


def copied(value: Any, copies: list[torch.Tensor]) -> Any:
    """An argument with tensors of its own, which are added to `copies`."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        copies.append(copy.copy_(value.detach()))
        return copy
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(copied(one, copies) for one in value))
    return type(value)(copied(one, copies) for one in value) if isinstance(value, list | tuple) else value


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its bits, of any type."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def stop(*_: Any) -> None:
    """The alarm rings."""
    raise TimeoutError


def table(verdicts: Sequence[Verdict]) -> str:
    """A line a kind, in Markdown."""
    lines = [
        "| synchronisation | mutants | noticed | in program order | by | not noticed | not run |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(one.mutant.kind for one in verdicts):
        these = [one for one in verdicts if one.mutant.kind == kind]
        noticed = [one for one in these if one.found]
        by = ", ".join(f"{name} {count}" for name, count in Counter(one.found[0] for one in noticed).most_common())
        early = sum(one.seed is None for one in noticed)
        silent, idle = (sum(not one.found and one.ran is ran for one in these) for ran in (True, False))
        lines.append(f"| {kind} | {len(these)} | {len(noticed)} | {early} | {by} | {silent} | {idle} |")
    return "\n".join(lines)


def tell(subject: Subject, pattern: str = "") -> None:
    """pattern: of kinds, or of lines as `line 123`. Print verdicts as they come, then the table."""
    found = []
    for verdict in subject.verdicts(pattern):
        print(verdict, flush=True)
        found.append(verdict)
    print(table(found))


if __name__ == "__main__":
    from tests.emulator import our_backward, our_forward

    variant, _, which = sys.argv[1].partition(":")
    tell((our_backward if which == "backward" else our_forward).subject_of(variant), *sys.argv[2:])
