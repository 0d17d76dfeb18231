"""A path or a text to a spec."""

import os
from collections.abc import Mapping
from pathlib import Path

from attnspec.language.check import check
from attnspec.language.diagnostics import Diagnostic, SpecError
from attnspec.language.limits import MAX_FILE
from attnspec.language.parse import parse
from attnspec.language.source import Source, Span
from attnspec.language.spec import Spec
from attnspec.language.syntax import Tree
from attnspec.language.text import decode


def read_spec(source: str | os.PathLike[str], constants: Mapping[str, int | float] = {}) -> Spec:
    """The spec of a file (a path), or of a text (a str with a line end, or with a blank in it that names no file)."""
    return check(read_tree(source), constants)


def read_tree(source: str | os.PathLike[str]) -> Tree:
    """The tree of a path or a text."""
    if isinstance(source, str) and is_text(source):
        return parse(source)
    if not os.fspath(source):
        raise SpecError(Diagnostic("cannot-read", "no file is named: the path is empty", Span(Source("<path>", ""), 0, 0)))
    return parse(decode(_read(Path(source)), str(source)), str(source))


def is_text(source: str) -> bool:
    """Whether a string is a spec itself rather than the path of one."""
    return "\n" in source or (source.lstrip().startswith("attention ") and not os.path.lexists(source))


def _read(path: Path) -> bytes:
    """The bytes of a file, at most one past the limit: `decode` refuses what is longer."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        place = Span(Source(str(path), ""), 0, 0)
        raise SpecError(Diagnostic("cannot-read", f"this file cannot be read: {reason}", place)) from None
