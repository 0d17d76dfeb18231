"""`python -m tests.emulator.mutate VARIANT [PATTERN]`: drop one synchronisation of the forward at a time, and see who notices.

Three calls on one CTA: ragged work tiles with odd numbers of key tiles, and query tiles that see no key. Each mutant runs in
program order, then with seeds, until some check fires or the results differ by a bit.
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
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulated_program import EmulatedProgram, as_argument

import attnspec
from attnspec import stages
from tests.emulator.mutants import Mutant, mutants
from tests.small_constants import SMALL, path_of


@dataclass(frozen=True)
class Case:
    """A call. spread: of its scores. checks: that are on."""

    shape: Shape
    spread: int
    checks: frozenset[str] = CHECKS | PEDANTIC


# With much spread, row maxima grow so much that accumulators are rescaled.
CASES = (
    Case(Shape(1, 2, 1, 300, 417), 8),
    Case(Shape(1, 2, 1, 600, 200), 1),
    Case(Shape(1, 2, 1, 300, 417), 1),
)
SECONDS = 120  # of one run, after which it is a hang


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
    """The forward kernel of a variant."""

    variant: str

    @cached_property
    def attention(self) -> attnspec.Attention:
        return attnspec.build(path_of(self.variant), on="emulator", **SMALL.get(self.variant, {}))

    @cached_property
    def compiled(self) -> Any:
        program = stages.kernel(self.attention, "sm100").program
        assert isinstance(program, EmulatedProgram)
        return program.binary.compiled

    @cached_property
    def text(self) -> str:
        return ptx_of(self.compiled)

    @cached_property
    def calls(self) -> list[tuple[torch.Tensor, ...]]:
        """q, k, v and declared tensors of each call."""
        found = []
        for case in CASES:
            inputs = draw_inputs(self.attention.spec, fit_shape(self.attention.spec, case.shape), 1)
            layout = check_call(self.attention.spec, inputs.q, inputs.k, inputs.v, Placing())
            declared = check_declared(self.attention.spec, inputs.tensors, layout, inputs.q.device)
            found.append((inputs.q * case.spread, inputs.k, inputs.v, *map(as_argument, declared)))
        return found

    @cached_property
    def right(self) -> list[tuple[torch.Tensor, ...]]:
        """out and lse of each call, by the kernel as it is."""
        return [self.run(call, None, None)[1] for call in range(len(CASES))]

    @cached_property
    def lines(self) -> frozenset[int]:
        """Lines that the calls run."""
        reports = [self.run(call, None, None)[0] for call in range(len(CASES))]
        return frozenset().union(*(launched.lines for report in reports for launched in report.launches))

    def run(self, call: int, seed: int | None, ptx: str | None) -> tuple[Report, tuple[torch.Tensor, ...]]:
        """The report, and out and lse."""
        q, k, v, *declared = self.calls[call]
        batch, length, heads = q.shape[:3]
        out = torch.full((batch, length, heads, v.shape[-1]), float("nan"), dtype=q.dtype)
        lse = torch.full((batch, heads, length), float("nan"))
        arguments = (q, k, v, out, lse, *declared, 0, 0, length, k.shape[1])
        return launch(self.compiled, *arguments, 1, seed=seed, checks=CASES[call].checks, ptx=ptx), (out, lse)

    def examine(self, mutant: Mutant, seeds: Sequence[int | None]) -> Verdict:
        """Run a mutant until something is noticed."""
        for seed in seeds:
            for call in range(len(CASES)):
                found = self.notice(mutant, call, seed)
                if found:
                    return Verdict(mutant, found, seed, True)
        return Verdict(mutant, (), None, mutant.line in self.lines)

    def notice(self, mutant: Mutant, call: int, seed: int | None) -> tuple[str, ...]:
        """What one run gives away."""
        self.right  # noqa: B018  made before the clock starts
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(SECONDS)
        try:
            report, results = self.run(call, seed, mutant.ptx)
        except TimeoutError:
            return ("hang",)
        except EmulatorError as error:
            return (type(error).__name__,)
        finally:
            signal.alarm(0)
        found = list(dict.fromkeys(fault.kind for fault in report.faults))
        same = all(
            torch.equal(one.view(torch.uint8), two.view(torch.uint8)) for one, two in zip(results, self.right[call], strict=True)
        )
        if not same and "deadlock" not in found:
            found.append("numbers")
        return tuple(found)

    def verdicts(self, pattern: str = "", seeds: Sequence[int | None] = (None, 0, 1, 2, 3, 4)) -> Iterator[Verdict]:
        """Of all mutants whose kind matches."""
        for mutant in mutants(self.text):
            if re.search(pattern, f"{mutant.kind} line {mutant.line}"):
                yield self.examine(mutant, seeds)


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


def main(variant: str, pattern: str = "") -> None:
    """pattern: of kinds, or of lines as `line 123`. Print verdicts as they come, then the table."""
    found = []
    for verdict in Subject(variant).verdicts(pattern):
        print(verdict, flush=True)
        found.append(verdict)
    print(table(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
