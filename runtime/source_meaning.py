"""What an emitted module means: its text without what only people read."""

import ast
import re

from attnspec.backends.emitted import Module
from attnspec.backends.expression import USER

NAME_OF_THE_FILE = re.compile(rf"\b(d_)?{USER}(\w+)")  # a tensor or a `let`, and the gradient of one


def meaning_of(module: Module, with_lines: bool) -> str:
    """The same for modules that differ in comments, docstrings and in what the file's own names are.

    with_lines: and whose statements stand in the same lines, which line tables name.
    """
    tree = ast.parse(module.text)
    for at in ast.walk(tree):
        if isinstance(at, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(at, clean=False) is not None:
            del at.body[0]
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f"{found.group(1) or ''}{USER}{numbers.setdefault(found.group(2), len(numbers))}"

    dump = NAME_OF_THE_FILE.sub(numbered, ast.dump(tree))
    lines = [at.lineno for at in ast.walk(tree) if isinstance(at, ast.stmt | ast.expr)] if with_lines else []
    return f"{dump} {lines} {sorted(module.spans) if with_lines else ''}"
