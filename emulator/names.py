"""What the author of a kernel calls its parts: handed to `launch` as data, so that reports speak of them.

The emulator knows offsets, columns and warps. Without names it speaks of those alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Part:
    """A stretch [start, end): bytes from the start of dynamic shared memory, or columns of tensor memory. full: byte of the
    mbarrier whose phases say how often it was filled."""

    name: str
    start: int
    end: int
    full: int | None = None


@dataclass(frozen=True)
class Signal:
    """What an mbarrier stands for. by: what completes it, in words; role: whose doing that is.

    It is used again and again, one of `depth` barriers of a ring: its phase p is use n = depth * p + slot of the ring. uses: what
    use n is called, for n modulo their number, with a place for the quotient: ("k of step {}", "v of step {}").
    """

    name: str
    by: str = ""
    role: str = ""
    slot: int = 0
    depth: int = 1
    uses: tuple[str, ...] = ()

    def use(self, phase: int) -> tuple[str, int]:
        """Template and number of a phase's use; ("", 0) if uses have no names."""
        if not self.uses:
            return "", 0
        count, at = divmod(self.depth * phase + self.slot, len(self.uses))
        return self.uses[at], count

    def during(self, phase: int) -> str:
        """The use in words, `k of step 2`."""
        template, number = self.use(phase)
        return template.format(number)


@dataclass(frozen=True)
class Names:
    """roles: by warp of a CTA. barriers: mbarriers by their byte in shared memory. arguments: of the host function, in order.
    specs: (file, line) of the kernel's source -> the place in what that line was made from, ready to print.
    folders: starts of file names -> what is shown in their stead. kernel: part of the name of the kernel that has these roles,
    buffers and barriers, if the function launches others too."""

    roles: Mapping[int, str] = field(default_factory=dict)
    shared: tuple[Part, ...] = ()
    tensor: tuple[Part, ...] = ()
    barriers: Mapping[int, Signal] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    specs: Mapping[tuple[str, int], str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""

    def of(self, kernel: str) -> "Names":
        """Those that hold for a kernel."""
        return self if self.kernel in kernel else replace(self, roles={}, shared=(), tensor=(), barriers={})

    def warp(self, index: int, cta: str) -> str:
        """A warp of a CTA."""
        name = f"warp {index} of {cta}"
        return f"{self.roles[index]} ({name})" if index in self.roles else name

    def argument(self, position: int) -> str:
        """An argument of the host function."""
        return self.arguments[position] if position < len(self.arguments) else f"argument {position}"

    def in_shared(self, offset: int) -> str:
        """` (name)` of what lies at a byte, or nothing."""
        return _at(self.shared, offset)

    def in_tensor(self, column: int) -> str:
        """` (name)` of what lies in a column, or nothing."""
        return _at(self.tensor, column)

    def source(self, source: tuple[str, int] | None) -> tuple[str, int] | None:
        """A file as it is shown."""
        if source is None:
            return None
        for start, shown in self.folders.items():
            if source[0].startswith(start):
                return shown + source[0].removeprefix(start), source[1]
        return source

    def spec(self, source: tuple[str, int] | None) -> str:
        """Where a line of source comes from, or nothing."""
        return self.specs.get(source, "") if source is not None else ""


def _at(parts: tuple[Part, ...], place: int) -> str:
    found = [part.name for part in parts if part.start <= place < part.end]
    return f" ({' or '.join(found)})" if found else ""


NO_NAMES = Names()
