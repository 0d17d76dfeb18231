"""Of how many tensors that have an element for each query and key TMA brings tiles: as many as have room in shared memory."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.staging import MOST_TILES, stage
from attnspec.lowering.dataflow.forward import draw_forward
from attnspec.lowering.schedule.complete import find_depths
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported


def choose_tiles(analysed: Analysed, limits: Limits) -> int:
    """Tensors of which a forward's work tiles are brought, those that the score asks for first before others; 0 if none fits."""
    dims = (analysed.spec.head_dim, analysed.spec.head_dim_v)
    for count in range(len(stage(analysed.spec, MOST_TILES).tiles), 0, -1):
        try:
            find_depths(draw_forward(analysed, tiles=count), dims, limits)
        except Unsupported:
            continue
        return count
    return 0
