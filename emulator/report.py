"""What a run found."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.emulator.errors import EmulatorError

HELP = {
    "race-shared": "look at the barrier that should stand between the two: an arrive that comes too early, a wait that is "
    "missing or waits for the wrong parity, a count that is too small, bytes that nobody announced",
    "race-global": "CTAs are ordered by atomics and by .release and .acquire on a flag, warps also by barriers",
    "barrier-bytes": "arrive.expect_tx must announce just the bytes that the loads of its phase bring",
}
HELP["race-tensor"] = HELP["race-shared"]
LONG_VECTOR = re.compile(r"\{(%\w+), [^{}]*, (%\w+)\}")


@dataclass(frozen=True)
class Site:
    """What the other side of a hazard did. line: of the PTX text; text: the instruction; source: (file, line) of `.loc`;
    spec: the place in the kernel's spec, ready to print."""

    agent: str
    line: int
    text: str
    source: tuple[str, int] | None = None
    spec: str = ""


@dataclass(frozen=True)
class Fault:
    """kind: a stable name. line: of the PTX text, 0 if none; text: the instruction there; source: (file, line) of `.loc`.
    other: of a hazard, the access or the warp it is against. spec: the place in the kernel's spec, ready to print."""

    kind: str
    message: str
    line: int = 0
    text: str = ""
    warp: str = ""
    source: tuple[str, int] | None = None
    other: Site | None = None
    spec: str = ""

    @property
    def help(self) -> str:
        """What to look at, for kinds whose message does not say."""
        return HELP.get(self.kind, "")

    def __str__(self) -> str:
        lines = [f"fault[{self.kind}]: {self.message}"]
        lines += [f"  in {self.warp}"] if self.warp else []
        lines += where(self.line, self.text, self.source, self.spec)
        if self.other is not None:
            lines.append(f"  against {self.other.agent}")
            lines += where(self.other.line, self.other.text, self.other.source, self.other.spec)
        lines += [f"  = help: {self.help}"] if self.help else []
        return "\n".join(lines)


def where(line: int, text: str, source: tuple[str, int] | None, spec: str) -> list[str]:
    """Lines that tell of a place."""
    lines = [f"  at PTX line {line}: {short(text)}"] if line else []
    lines += [f"  from {source[0]}:{source[1]}"] if source else []
    return lines + [f"  {one}" for one in spec.splitlines()]


def short(text: str) -> str:
    """An instruction without the middle of its long vectors."""
    return LONG_VECTOR.sub(lambda found: found[0] if found[0].count(",") < 6 else f"{{{found[1]}, ..., {found[2]}}}", text)


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
        return "\n\n".join(str(fault) for fault in self.faults) or "no faults"


class FaultsFound(EmulatorError):
    """A report with faults, raised by `Report.check`."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
