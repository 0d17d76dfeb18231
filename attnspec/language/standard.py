"""The standard library, std.attn, as functions of the language."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from attnspec.language.diagnostics import InternalError, SpecError
from attnspec.language.parse import parse
from attnspec.language.syntax import Def

NAME = "std.attn"


@cache
def standard_library() -> Mapping[str, Def]:
    """Functions by name, parsed once a process."""
    try:
        tree = parse((files("attnspec") / NAME).read_text("utf-8"), NAME)
    except SpecError as error:
        raise InternalError(f"{NAME} does not parse:\n{error}") from error
    return {item.name.text: item for item in tree.statements if isinstance(item, Def)}
