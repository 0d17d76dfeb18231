"""Faults found so far in one run: collected, so that one bad line does not hide the next."""

from dataclasses import dataclass, field

from attnspec.language.diagnostics import Diagnostic, SpecError
from attnspec.language.limits import MAX_FAULTS
from attnspec.language.source import Span


@dataclass
class Faults:
    """Diagnostics in the order found; the same name at the same place is kept once."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, name: str, message: str, span: Span, note: str = "", help: str = "") -> None:
        """Record a fault; past MAX_FAULTS of them, stop the run with those found."""
        if any(old.name == name and old.span == span for old in self.found):
            return
        self.found.append(Diagnostic(name, message, span, note, help))
        if len(self.found) >= MAX_FAULTS:
            self.stop_if_any()

    def stop(self, name: str, message: str, span: Span, note: str = "", help: str = "") -> None:
        """Record a fault that nothing after it could be trusted past, and stop."""
        self.found.append(Diagnostic(name, message, span, note, help))
        self.stop_if_any()

    def stop_if_any(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            raise SpecError(self.found)
