"""What a run found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.emulator.errors import EmulatorError


@dataclass(frozen=True)
class Site:
    """What the other side of a hazard did. line: of the PTX text; text: the instruction; source: (file, line) of `.loc`."""

    agent: str
    line: int
    text: str
    source: tuple[str, int] | None = None


@dataclass(frozen=True)
class Fault:
    """kind: a stable name. line: of the PTX text, 0 if none; text: the instruction there; source: (file, line) of `.loc`.
    other: of a hazard, the access or the warp it is against."""

    kind: str
    message: str
    line: int = 0
    text: str = ""
    warp: str = ""
    source: tuple[str, int] | None = None
    other: Site | None = None

    def __str__(self) -> str:
        where = f"\n  at PTX line {self.line}: {self.text}" if self.line else ""
        where += f"\n  from {self.source[0]}:{self.source[1]}" if self.source else ""
        if self.other is not None:
            where += f"\n  against {self.other.agent}\n  at PTX line {self.other.line}: {self.other.text}"
            where += f"\n  from {self.other.source[0]}:{self.other.source[1]}" if self.other.source else ""
        return f"fault[{self.kind}]: {self.message}" + (f"\n  in {self.warp}" if self.warp else "") + where


@dataclass(frozen=True)
class Launched:
    """One grid. counts: executed warp instructions by opcode; lines: of the PTX text, those that some warp has run."""

    kernel: str
    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    threads: int
    shared_bytes: int
    counts: Mapping[str, int] = field(repr=False)
    lines: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def instructions(self) -> int:
        """Warp instructions in all."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Report:
    """Launches in order, and faults in the order found. seconds: of the emulated run, without compilation of the kernel."""

    launches: tuple[Launched, ...]
    faults: tuple[Fault, ...]
    seconds: float
    seed: int | None

    @property
    def ok(self) -> bool:
        """No fault was found."""
        return not self.faults

    def check(self) -> "Report":
        """This report, or FaultsFound."""
        if self.faults:
            raise FaultsFound(self)
        return self

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults) or "no faults"


class FaultsFound(EmulatorError):
    """A report with faults, raised by `Report.check`."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
