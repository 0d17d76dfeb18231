"""The sm90 target: its emitted source."""

from attnspec.backends.cute.emit.manifest import manifest_of
from attnspec.backends.emitted import Emitted
from attnspec.backends.sm90.emit.backward_module import backward_module
from attnspec.backends.sm90.emit.module import forward_module
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.schedule import Schedule

NAME = "sm90"
ARCHITECTURE = "sm_90a"


def emit(analysed: Analysed, schedule: Schedule) -> Emitted:
    """The emitted module of a schedule, with the facts a launch needs; a pure function of its arguments."""
    make = forward_module if schedule.dataflow.direction == "forward" else backward_module
    return Emitted(NAME, (make(analysed, schedule),), manifest_of(analysed, schedule, ARCHITECTURE))
