"""The one writer of emitted text: lines with indentation, the span each came from, and nothing of a user's unescaped."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from attnspec.language.diagnostics import printable
from attnspec.language.source import NOWHERE, Span

INDENT = "    "
MAX_NAME = 40  # characters of a person's name kept in an emitted one
LONG = 160  # characters of a person's text kept in a comment


@dataclass
class Source:
    """Text under construction. Line numbers are from 1."""

    lines: list[str] = field(default_factory=list)
    spans: dict[int, Span] = field(default_factory=dict)
    depth: int = 0

    def line(self, text: str = "", span: Span = NOWHERE) -> None:
        """One line at the present indentation; a blank line carries none."""
        if "\n" in text or "\r" in text:
            raise ValueError("one line at a time")
        self.lines.append(f"{INDENT * self.depth}{text}" if text else "")
        if span is not NOWHERE:
            self.spans[len(self.lines)] = span

    def text(self, block: str) -> None:
        """Several lines, each moved to the present indentation."""
        for line in block.strip("\n").split("\n"):
            self.line(line)

    def blank(self, count: int = 1) -> None:
        """Empty lines, `count` in a row at most."""
        while self.lines and count and not any(self.lines[-count:]):
            return
        for _ in range(count):
            self.line()

    def comment(self, text: str) -> None:
        """A comment; may hold what a person wrote."""
        self.line(f"# {plain(text)}")

    def docstring(self, *lines: str) -> None:
        """A docstring; may hold what a person wrote."""
        shown = [quotable(line) for line in lines]
        if len(shown) == 1:
            self.line(f'"""{shown[0]}"""')
            return
        self.line(f'"""{shown[0]}')
        for line in shown[1:]:
            self.line(line)
        self.line('"""')

    @contextmanager
    def block(self, header: str, span: Span = NOWHERE) -> Iterator[None]:
        """A compound statement: the header line, then what is written inside, one step further in."""
        self.line(header, span)
        self.depth += 1
        yield
        self.depth -= 1

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def plain(text: str, longest: int = LONG) -> str:
    """A person's text made safe for a comment: one line of printable ASCII, cut if long."""
    shown = printable(text).encode("ascii", "replace").decode()
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


def short_place(span: Span) -> str:
    """`file:line:column` for a comment, without the folders: emitted text does not depend on where a file lies."""
    return plain(str(span).replace("\\", "/").rpartition("/")[2], 60)


def quotable(text: str) -> str:
    """A person's text made safe inside a triple-quoted string."""
    return plain(text).replace("\\", "/").replace('"', "'")


def identifier(name: str, prefix: str) -> str:
    """An emitted identifier for a person's name: prefixed, of [A-Za-z0-9_] alone, of bounded length."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
    return f"{prefix}{kept[:MAX_NAME]}"


class Names:
    """Identifiers of one scope, no two alike."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def new(self, name: str, prefix: str) -> str:
        """An identifier not given out before, as near to the name as can be."""
        wanted = identifier(name, prefix)
        found, count = wanted, 1
        while found in self.taken:
            count += 1
            found = f"{wanted}_{count}"
        self.taken.add(found)
        return found
