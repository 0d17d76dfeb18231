"""A file as logical lines: comments blanked out, lines joined while a bracket is open."""

import re
from dataclasses import dataclass, field

from attnspec.language.faults import Faults
from attnspec.language.limits import MAX_DEPTH, MAX_STATEMENT, MAX_STATEMENTS
from attnspec.language.source import Source, Span

# A physical line that can only be the start of a statement, even where a bracket is open: the bracket was forgotten.
STATEMENT_HEAD = re.compile(
    r"[ \t]*(?:(?:attention|const|input|learned|let|def|dtype)[ \t]+[A-Za-z_]|(?:head_dim|group)[ \t]+\w|varlen\b"
    r"|(?:score|mask|sink)[ \t]*=(?!=))"
)
PIECE = re.compile(r"#[^\n]*|\n|[()\[\]]|[^#\n()\[\]]+")
PARTNER = {")": "(", "]": "["}
CLOSER = {"(": ")", "[": "]"}


@dataclass
class LogicalLine:
    """One statement's text. Characters keep their places: `text[i]` is `source.text[start + i]` or a blank."""

    start: int
    text: str = ""
    is_sound: bool = True  # brackets match


@dataclass
class _Splitter:
    source: Source
    faults: Faults
    lines: list[LogicalLine] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    open_brackets: list[int] = field(default_factory=list)  # offsets
    start: int = 0
    is_sound: bool = True

    def fault(self, name: str, message: str, offset: int, help: str) -> None:
        self.faults.add(name, message, Span(self.source, offset, offset + 1), help=help)
        self.is_sound = False

    def bracket(self, char: str, offset: int) -> None:
        if char in CLOSER:
            self.open_brackets.append(offset)
            if len(self.open_brackets) > MAX_DEPTH:
                span = Span(self.source, offset, offset + 1)
                self.faults.stop("nested-too-deep", f"brackets are nested deeper than {MAX_DEPTH}", span)
        elif not self.open_brackets:
            self.fault("unmatched-parenthesis", f"nothing opens this `{char}`", offset, f"remove it, or add `{PARTNER[char]}`")
        else:
            opener = self.source.text[self.open_brackets.pop()]
            if opener != PARTNER[char]:
                message = f"`{opener}` is closed by `{char}`"
                self.fault("unmatched-parenthesis", message, offset, f"close it with `{CLOSER[opener]}`")

    def end(self, offset: int) -> None:
        """Finish the logical line that ends at an offset."""
        for opened in self.open_brackets:
            char = self.source.text[opened]
            self.fault("missing-parenthesis", f"this `{char}` is never closed", opened, f"add `{CLOSER[char]}`")
        line = LogicalLine(self.start, "".join(self.pieces), self.is_sound)
        if len(line.text) > MAX_STATEMENT:
            span = Span(self.source, line.start, line.start + 1)
            self.faults.stop("statement-too-long", f"this statement is longer than {MAX_STATEMENT} characters", span)
        if line.text.strip():
            self.lines.append(line)
        if len(self.lines) > MAX_STATEMENTS:
            span = Span(self.source, line.start, line.start + 1)
            self.faults.stop("file-too-large", f"a file may hold {MAX_STATEMENTS} statements at most", span)
        self.start, self.is_sound = offset + 1, True
        self.pieces.clear()
        self.open_brackets.clear()


def logical_lines(source: Source, faults: Faults) -> list[LogicalLine]:
    """Split a text; brackets that do not match are faults of their line, and their line is not sound."""
    split = _Splitter(source, faults)
    for found in PIECE.finditer(source.text):
        piece, offset = found.group(), found.start()
        if piece == "\n":
            if not split.open_brackets or STATEMENT_HEAD.match(source.text, offset + 1):
                split.end(offset)
                continue
        elif piece in "()[]":
            split.bracket(piece, offset)
        split.pieces.append(" " * len(piece) if piece[0] in "#\n" else piece)
    split.end(len(source.text))
    return split.lines
