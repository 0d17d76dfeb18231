"""From what the analyses found to the graph of tile operations."""

from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward import draw_backward
from attnspec.lowering.dataflow.forward import draw_forward
from attnspec.lowering.dataflow.graph import Dataflow


def draw(analysed: Analysed, direction: Literal["forward", "backward"]) -> Dataflow:
    """The graph of one kernel of the variant."""
    return draw_forward(analysed) if direction == "forward" else draw_backward(analysed)
