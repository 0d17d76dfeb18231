"""From what the analyses found to the graph of tile operations."""

from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.forward import draw_forward
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.refusal import Unsupported


def draw(analysed: Analysed, direction: Literal["forward", "backward"]) -> Dataflow:
    """The graph of one kernel of the variant. Raises `Unsupported` for a kernel that is not drawn yet."""
    if direction == "backward":
        raise Unsupported(f"attention {analysed.spec.name}", "its backward kernel is not drawn yet, only the forward")
    return draw_forward(analysed)
