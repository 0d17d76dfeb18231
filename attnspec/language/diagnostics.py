"""Errors for the person who wrote a spec, and how they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnspec.language.source import Span

MAX_LINE = 160  # characters of a source line shown


@dataclass(frozen=True)
class Diagnostic:
    """One thing wrong: a stable name, what, where, a note under the carets, and what to do about it."""

    name: str
    message: str
    span: Span
    note: str = ""
    help: str = ""

    def __str__(self) -> str:
        return show_diagnostic(self)


class SpecError(Exception):
    """The spec is wrong; carries every fault found, in the order of the file."""

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic]) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics = tuple(sorted(found, key=lambda item: (item.span.source.name, item.span.start)))
        super().__init__("\n\n".join(map(show_diagnostic, self.diagnostics)))


class InternalError(Exception):
    """An invariant of the compiler is broken: our fault, never the user's."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\nThis is a fault in attnspec, not in your file: please report it with the spec.")


def show_diagnostic(item: Diagnostic) -> str:
    """The text a person reads: name, `file:line:col`, the line with carets, the reason, a help line."""
    rows = [f"error[{item.name}]: {printable(item.message)}", excerpt(item.span, item.note)]
    if item.help:
        line, _ = item.span.source.position(item.span.start)
        rows.append(f"{' ' * len(str(line))}  = help: {printable(item.help)}")
    return "\n".join(rows)


def excerpt(span: Span, note: str = "") -> str:
    """`file:line:col` and the line, with carets under the span and a note behind them."""
    line, column = span.source.position(span.start)
    text = printable(span.source.line(line))
    margin = " " * len(str(line))
    shown, offset = text, 0
    if len(text) > MAX_LINE:
        offset = max(0, column - 1 - MAX_LINE // 2)
        shown = text[offset : offset + MAX_LINE]
    start = column - 1 - offset
    width = max(1, min(span.end - span.start, len(shown) - start))
    carets = " " * start + "^" * width + (f" {printable(note)}" if note else "")
    rows = [
        f"{margin} --> {printable(span.source.name)}:{line}:{column}",
        f"{margin}  |",
        f"{line}  | {shown}",
        f"{margin}  | {carets}",
    ]
    return "\n".join(rows)


def printable(text: str) -> str:
    """The text with control characters (a terminal would obey them) replaced, one for one; tabs and line ends by spaces."""
    return "".join(" " if char in "\t\r\n\f" else char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
