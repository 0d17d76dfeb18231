"""Values of constants from outside the file: `-D NAME=VALUE`, `build(..., NAME=value)`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import SupportsFloat, SupportsIndex

from attnspec.language.expr import Kind, Number
from attnspec.language.faults import Faults
from attnspec.language.fold import FoldError, checked
from attnspec.language.source import Source, Span
from attnspec.language.suggest import did_you_mean


@dataclass
class Overrides:
    """values: as given, of any type; each is checked when its constant is met."""

    values: Mapping[str, object]
    faults: Faults
    used: set[str] = field(default_factory=set)

    def apply(self, name: str, written: Number) -> Number:
        """The constant's number: the override if there is one, else what the file says."""
        if name not in self.values:
            return written
        self.used.add(name)
        value = self.values[name]
        number = _number(value, written.kind)
        if number is None:
            message = f"`{name}` must be a number, not {type(value).__name__} {str(value)[:40]!r}"
            help = "give it worked out; only the file may hold expressions" if isinstance(value, str) else ""
            self.faults.add("bad-override", message, self._span(name), help=help)
            return written
        try:
            return Number(checked(number), "int" if isinstance(number, int) else "float", written.span)
        except FoldError as error:
            self.faults.add("bad-override", f"`{name}`: {error.message}", self._span(name))
            return written

    def refuse_unknown(self, constants: tuple[str, ...], others: Mapping[str, tuple[str, str]]) -> None:
        """A fault for each override of what is no constant. others: what the file's other names are, and a help line."""
        for name in self.values:
            if name in self.used:
                continue
            if name in others:
                what, help = others[name]
                self.faults.add("unknown-constant", f"`{name}` is {what}, not a constant", self._span(name), help=help)
                continue
            known = f"its constants are: {', '.join(constants)}" if constants else "it has no constants"
            help = did_you_mean(str(name), constants)
            self.faults.add("unknown-constant", f"this file has no constant `{name}`; {known}", self._span(name), help=help)

    def _span(self, name: str) -> Span:
        text = f"{name} = {str(self.values[name])[:40]}"
        return Span(Source("<constants>", text), 0, len(text))


def _number(value: object, written: Kind) -> int | float | None:
    """The value as a number, an int only where the file has one; None if it is not a number (numpy's are)."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return None
    try:
        if written == "int" and isinstance(value, SupportsIndex):
            return value.__index__()
        return float(value) if isinstance(value, SupportsFloat) else None
    except OverflowError:
        return inf
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors of several elements, or of none at hand
        return None
