"""What every target offers to the stages above it."""

from typing import Literal, Protocol

from attnspec.backends.emitted import Emitted

from attnspec.language.diagnostics import Diagnostic
from attnspec.language.spec import Spec

Pass = Literal["forward", "backward"]


class Backend(Protocol):
    """One target. `Program` is what its emitter starts from: `Analysed` for the reference, `Schedule` for a GPU."""

    @property
    def name(self) -> str:
        """The name that `target=` takes."""
        ...

    def refuses(self, spec: Spec) -> Diagnostic | None:
        """The statement that this target cannot run, and why; None if it can run the variant."""
        ...

    def emit(self, program, /) -> Emitted:
        """Source text; a pure function of the program."""
        ...
