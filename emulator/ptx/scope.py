"""Names inside nested braces: registers and labels of a `{ }` scope hide those outside."""

import re
from dataclasses import dataclass, field

from attnspec.emulator.ptx.operands import Register

NUMBERED = re.compile(r"^(.*?)(\d+)$")


@dataclass
class Scope:
    """names: bits by register name; families: bits by prefix of `%r<100>`; labels: position by label name."""

    outer: "Scope | None" = None
    names: dict[str, int] = field(default_factory=dict)
    families: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    numbered: dict[str, Register] = field(default_factory=dict)

    def bits(self, name: str) -> int | None:
        """Width of a register declared here, None if it is not."""
        if name in self.names:
            return self.names[name]
        match = NUMBERED.match(name)
        return self.families.get(match.group(1)) if match else None

    def label(self, name: str) -> int | None:
        """Position of a label, looked up outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.outer
        return None


class Registers:
    """Numbers the registers of a kernel as they are met."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find(self, scope: Scope, name: str) -> Register | None:
        """The register a name means in a scope, None if it is no register."""
        at: Scope | None = scope
        while at is not None:
            if name in at.numbered:
                return at.numbered[name]
            bits = at.bits(name)
            if bits is not None:
                register = Register(len(self.names), bits, name)
                self.names.append(name)
                at.numbered[name] = register
                return register
            at = at.outer
        return None
