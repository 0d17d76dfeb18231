"""Names of a traced variant: those of the Python source where the language can take them."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from keyword import kwlist

from attnspec.language.limits import MAX_NAME
from attnspec.language.names import BUILD_WORDS, CALL_WORDS, RESERVED
from attnspec.language.spec import Constant

TAKEN = frozenset((*RESERVED, *CALL_WORDS, *BUILD_WORDS, *kwlist, "none", "true", "false", "require"))


def clean(name: str) -> str:
    """The name as one of the language: letters, digits and `_`."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")[: MAX_NAME - 4] or "flex"
    return f"_{word}" if word[0].isdigit() else word


@dataclass
class Names:
    """Names given so far, and the constants among them."""

    given: set[str] = field(default_factory=lambda: set(TAKEN))
    constants: dict[str, int | float] = field(default_factory=dict)

    def fresh(self, wanted: str) -> str:
        """The name, or the name with a number behind it."""
        base, count = clean(wanted), 2
        name = f"{base}_" if base in TAKEN else base
        while name in self.given:
            name = f"{base}_{count}"
            count += 1
        self.given.add(name)
        return name

    def constant(self, wanted: str, value: int | float) -> str | None:
        """The name of a constant: one of this name and value, or a new one; None if the name stands for something else."""
        name = clean(wanted)
        name = f"{name}_" if name in TAKEN else name
        known = self.constants.get(name)
        if known is not None:
            return name if known == value and type(known) is type(value) else None
        if name in self.given:
            return None
        self.given.add(name)
        self.constants[name] = value
        return name

    def used(self, labels: Collection[str | None]) -> tuple[Constant, ...]:
        """The constants that an expression still names."""
        return tuple(Constant(name, value) for name, value in self.constants.items() if name in labels)
