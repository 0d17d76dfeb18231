"""Source texts and the places in them."""

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """A text and the name a person knows it by (a path, `<text>`, `std.attn`)."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of each line."""
        return (0, *(index + 1 for index, char in enumerate(self.text) if char == "\n"))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of a line, without its end."""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]


@dataclass(frozen=True)
class Span:
    """Half-open range of characters [start, end) in a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, from 1."""
        return self.source.position(self.start)[1]

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


NOWHERE = Span(Source("<derived>", ""), 0, 0)
