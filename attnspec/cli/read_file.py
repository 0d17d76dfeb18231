"""FILE of the command line to a tree and a spec: a path, `-`, or the name of a standard variant."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attnspec import stages, variants
from attnspec.cli.invocation import current
from attnspec.language.diagnostics import Diagnostic, SpecError
from attnspec.language.limits import MAX_FILE
from attnspec.language.load import read_tree
from attnspec.language.source import Source, Span
from attnspec.language.spec import Spec
from attnspec.language.suggest import did_you_mean
from attnspec.language.syntax import Tree
from attnspec.language.text import decode

STDIN = "<stdin>"


def read_spec(file: str, constants: Iterable[tuple[str, Any]]) -> Spec:
    """Both stages of the language at once."""
    return stages.check(parse_file(file), overrides(constants))


def overrides(constants: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    """`-D` options by name."""
    return dict(constants)


def parse_file(file: str) -> Tree:
    """The tree of FILE."""
    if file == "-":
        data = sys.stdin.buffer.read(MAX_FILE + 1)
        current().spec = data
        return stages.parse(decode(data, STDIN), STDIN)
    path = find(file)
    current().spec = path
    return read_tree(path)


def find(file: str) -> Path:
    """The path meant: a file wins over a standard variant of that name."""
    if not file:
        raise SpecError(Diagnostic("cannot-read", "no file is named: FILE is empty", Span(Source("<path>", ""), 0, 0)))
    path = Path(file)
    if os.path.isfile(file) or is_path(file):
        return path
    if file in variants.names():
        return variants.path(file)
    if os.path.lexists(file):
        return path
    message = f"there is no file `{file}` here, and no standard variant of that name"
    raise SpecError(Diagnostic("cannot-read", message, Span(Source(file, ""), 0, 0), help=near(file)))


def is_path(file: str) -> bool:
    """Whether FILE can only be meant as a path."""
    return os.sep in file or "." in file


def near(file: str) -> str:
    """A help line for the name of no variant: those that have it in their names, or the most alike."""
    having = [name for name in variants.names() if file in name]
    if having:
        return f"there are {', '.join(having)}"
    return did_you_mean(file, variants.names()) or "`attnc variants` lists the standard variants"
