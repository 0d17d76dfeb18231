"""One emitted module of a GPU target, compiled for the emulator when it is first asked for."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from attnspec.backends.emitted import Emitted
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary

if TYPE_CHECKING:
    from attnspec.emulator.names import Names


def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="attnspec-")


@dataclass(frozen=True)
class EmulatedBinary:
    """emitted: the module. schedule: what reports take names from."""

    emitted: Emitted
    schedule: Schedule
    _folder: TemporaryDirectory[str] = field(default_factory=_folder, repr=False, kw_only=True)

    @cached_property
    def binary(self) -> Binary:
        """The compiled kernels; their source stays in a folder of its own as long as this lives."""
        return assemble(self.emitted, Path(self._folder.name))

    @cached_property
    def names(self) -> "Names":
        """What reports call the parts of the kernel."""
        from attnspec.runtime.emulated_names import names_of

        return names_of(self.schedule, self.emitted, Path(self._folder.name))
