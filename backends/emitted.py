"""What a backend writes: modules of source text, and the facts that go with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.language.source import Span


@dataclass(frozen=True)
class Module:
    """One emitted file. name: without its suffix. spans: emitted line, from 1, to the place in the spec it came from."""

    name: str
    text: str = field(repr=False)
    spans: Mapping[int, Span] = field(default_factory=dict, repr=False)

    @property
    def file_name(self) -> str:
        """Name of the file it is written to."""
        return f"{self.name}.py"


@dataclass(frozen=True)
class Emitted:
    """All modules of a variant for one target; manifest: facts in JSON types, written next to them."""

    target: str
    modules: tuple[Module, ...]
    manifest: Mapping[str, Any]

    def module(self, name: str) -> Module:
        """The module of that name; KeyError if there is none."""
        for module in self.modules:
            if module.name == name:
                return module
        raise KeyError(name)
