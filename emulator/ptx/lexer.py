"""PTX text to tokens."""

import re
from dataclasses import dataclass

from attnspec.emulator.errors import EmulatorError

TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f]+ | //[^\n]* | /\*.*?\*/)
  | (?P<newline>\n)
  | (?P<string>"[^"\n]*")
  | (?P<number>0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16} | 0[xX][0-9a-fA-F]+U? | \d+\.\d+(?:[eE][+-]?\d+)? | \d+U?)
  | (?P<name>[A-Za-z_$%.](?:[\w$.] | ::)*)
  | (?P<mark>[{}()\[\];:,@!|+\-*=<>&])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: string, number, name or mark. start, end: offsets in the text."""

    kind: str
    text: str
    line: int
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """All tokens of a PTX module, without spaces and comments."""
    found: list[Token] = []
    line, at = 1, 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise EmulatorError(f"PTX line {line}: cannot read {text[at : at + 20]!r}")
        kind = match.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "space":
            line += match.group().count("\n")
        else:
            found.append(Token(kind, match.group(), line, at, match.end()))
        at = match.end()
    return found
