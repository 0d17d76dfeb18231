"""The sm100 target: what it cannot run, and its emitted source."""

from attnspec.backends.emitted import Emitted
from attnspec.backends.sm100.emit.manifest import manifest_of
from attnspec.backends.sm100.emit.module import forward_module
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.schedule import Schedule

NAME = "sm100"
ARCHITECTURE = "sm_100a"


def emit(analysed: Analysed, schedule: Schedule) -> Emitted:
    """The emitted modules of a schedule, with the facts a launch needs; a pure function of its arguments."""
    return Emitted(NAME, (forward_module(analysed, schedule),), manifest_of(analysed, schedule, ARCHITECTURE))
