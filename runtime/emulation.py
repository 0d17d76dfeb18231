"""When a call's kernels run in the emulator: with which timing, and what the reports were."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnspec.emulator.report import Report


@dataclass(frozen=True)
class Emulation:
    """seed: of the timing; None is program order. reports: of the launches so far, those with faults too."""

    seed: int | None
    reports: "list[Report]" = field(default_factory=list)


_now: "ContextVar[Emulation | None]" = ContextVar("emulation", default=None)


@contextmanager
def emulation(seed: int | None) -> Iterator[Emulation]:
    """Kernels that run in the emulator inside this take that timing, and leave their reports. Faults are raised as ever."""
    made = Emulation(seed)
    token = _now.set(made)
    try:
        yield made
    finally:
        _now.reset(token)


def chosen_seed(default: int | None) -> int | None:
    """That of the timing at hand, or the default."""
    now = _now.get()
    return default if now is None else now.seed


def checked(report: "Report") -> "Report":
    """Keep a report; FaultsFound if there are any."""
    now = _now.get()
    if now is not None:
        now.reports.append(report)
    return report.check()
