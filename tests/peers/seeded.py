"""Runs of one call of a kernel in program order and over seeds, on the same memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from attnspec.emulator import launch
from attnspec.emulator.report import Report

REDUCTIONS = ("cp.reduce", "red.", "atom.")


@dataclass
class Seeded:
    """Launches with seeds, then in program order, whose results stay. differing: kernels whose results depend on the seed by more
    than the order of additions does; every report is in `reports`."""

    seeds: Sequence[int]
    reports: list[Report] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def __call__(self, compiled: Any, *arguments: Any) -> Report:
        before = {id(one): one.clone() for one in tensors(arguments)}
        others = []
        for seed in self.seeds:
            others.append(self.run(compiled, arguments, seed))
            for one in tensors(arguments):
                one.copy_(before[id(one)])
        report, results = self.run(compiled, arguments, None)
        names = " ".join(launched.kernel for launched in report.launches)
        adds = any(name.startswith(REDUCTIONS) for launched in report.launches for name in launched.counts)
        if any(not same(one, right, adds) for other, found in others if not other.faults for one, right in zip(found, results)):
            self.differing.append(names)
        return report

    def run(self, compiled: Any, arguments: Sequence[Any], seed: int | None) -> tuple[Report, list[torch.Tensor]]:
        """Once; gives copies of all tensors after it."""
        report = launch(compiled, *arguments, seed=seed)
        self.reports.append(report)
        return report, [one.clone() for one in tensors(arguments)]


def same(one: torch.Tensor, right: torch.Tensor, adds: bool) -> bool:
    """Bit for bit; sums of f32 by the memory system in any order within their rounding."""
    if not adds or one.dtype != torch.float32:
        one, right = (tensor.contiguous().view(-1).view(torch.uint8) for tensor in (one, right))
        return torch.equal(one, right)
    return torch.allclose(one, right, rtol=1e-5, atol=1e-5 * float(right.nan_to_num().abs().max()), equal_nan=True)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Those of the arguments, in tuples too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)
