"""Is this a text that can be parsed at all? Sizes, characters, the words of other languages."""

import re
from codecs import BOM_UTF8

from attnspec.language.diagnostics import Diagnostic, SpecError
from attnspec.language.faults import Faults
from attnspec.language.limits import MAX_FILE, MAX_TOKENS
from attnspec.language.source import Source, Span

TOKEN = re.compile(r"\w+|[^\w\s]")
ODD_CHARACTER = re.compile(r"[^\t\n\r\f\x20-\x7e]")
COMMENT = re.compile(r"#[^\n]*")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")

LOOKALIKES = {
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
    "–": "-",
    "—": "-",
    "∞": "inf",
    "√": "sqrt(...)",
    "∧": "and",
    "∨": "or",
    "¬": "not",
    "“": '"',
    "\u00a0": "a space",
}


def decode(data: bytes, name: str) -> str:
    """The text of a file; SpecError if it is too large or not UTF-8."""
    if len(data) > MAX_FILE:
        nowhere = Span(Source(name, ""), 0, 0)
        raise SpecError(Diagnostic("file-too-large", f"a file may hold {MAX_FILE // 1024} KiB at most", nowhere))
    data = data.removeprefix(BOM_UTF8)  # some editors start every file with it
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        span = Span(Source(name, before), len(before), len(before) + 1)
        raise SpecError(Diagnostic("not-utf-8", f"byte {error.start} is not UTF-8", span)) from None


def guard(source: Source, faults: Faults) -> None:
    """Refuse what is too large to look at; then name every character that the language has no use for."""
    if len(source.text) > MAX_FILE:
        first = Span(source, 0, 1)
        faults.stop("file-too-large", f"a file may hold {MAX_FILE // 1024} KiB at most", first)
    for found in CONTROL.finditer(source.text):
        span = Span(source, found.start(), found.end())
        faults.stop("control-character", f"a control character (code {ord(found.group())}) has no place in a file", span)
    # A comment may hold any script; blank comments out so that only the code is looked at.
    code = COMMENT.sub(lambda found: " " * len(found.group()), source.text)
    if sum(1 for _ in TOKEN.finditer(code)) > MAX_TOKENS:
        faults.stop("file-too-large", f"a file may hold {MAX_TOKENS} words and signs at most", Span(source, 0, 1))
    for found in ODD_CHARACTER.finditer(code):
        char, span = found.group(), Span(source, found.start(), found.end())
        meant = LOOKALIKES.get(char)
        faults.add("not-ascii", f"`{char}` is not used in the language", span, help=f"write {meant}" if meant else "")
