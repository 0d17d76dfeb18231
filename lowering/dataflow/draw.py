"""From what the analyses found to the graph of tile operations."""

from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward import draw_backward
from attnspec.lowering.dataflow.backward_in_registers import draw_backward_in_registers
from attnspec.lowering.dataflow.forward import NO_TILES, TensorTiles, draw_forward
from attnspec.lowering.dataflow.forward_in_registers import PLAIN, Storage, draw_forward_in_registers
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.dataflow.one_query_tile import draw_one_query_tile


def draw(
    analysed: Analysed,
    direction: Literal["forward", "backward"],
    *,
    one_query_tile: bool = False,
    in_registers: bool = False,
    ctas: int = 1,
    deterministic: bool = False,
    storage: Storage = PLAIN,
    tiles: TensorTiles = NO_TILES,
) -> Dataflow:
    """The graph of one kernel of the variant.

    one_query_tile: of the forward, two key tiles a step for one query tile.
    in_registers: for a chip whose tensor core leaves its results in registers.
    ctas: 2 for a pair of CTAs that share what is streamed, keys and values of a forward, queries of a backward.
    storage: of a forward in registers, what is where in shared memory. tiles: of another forward, those of tensors.
    deterministic: of the backward, in which CTAs add to one another's sums; a forward always is.
    """
    if direction == "backward":
        if in_registers:
            return draw_backward_in_registers(analysed, deterministic)
        return draw_backward(analysed, deterministic, ctas)
    if in_registers:
        return draw_forward_in_registers(analysed, storage)
    return draw_one_query_tile(analysed) if one_query_tile else draw_forward(analysed, ctas, tiles)
