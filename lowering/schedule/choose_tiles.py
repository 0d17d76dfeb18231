"""Of how many tensors that have an element for each query and key TMA brings tiles: as many as have room in shared memory."""

from collections.abc import Iterator

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.staging import MOST_TILES, stage
from attnspec.lowering.dataflow.forward import NO_TILES, TensorTiles, draw_forward, tile_shape
from attnspec.lowering.schedule.complete import find_depths
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported


def choose_tiles(analysed: Analysed, limits: Limits) -> TensorTiles:
    """Tiles of as many tensors as fit, those that the score asks for first before others; `NO_TILES` if none fits.

    A tile in a slot that query tiles use in turn is better than none: elements that threads load cost ten times as much.
    """
    dims = (analysed.spec.head_dim, analysed.spec.head_dim_v)
    for tiles in _forms(analysed):
        try:
            find_depths(draw_forward(analysed, tiles=tiles), dims, limits)
        except Unsupported:
            continue
        return tiles
    return NO_TILES


def _forms(analysed: Analysed) -> Iterator[TensorTiles]:
    """The most tensors first; of as many, slots of each query tile's own before those in turn, and these beside staged values
    before those without, which threads then load, but no row of their own of each."""
    for count in range(len(stage(analysed.spec, MOST_TILES).tiles), 0, -1):
        yield TensorTiles(count)
        if tile_shape(analysed.spec).query_tiles > 1:
            yield TensorTiles(count, in_turn=True)
            yield TensorTiles(count, in_turn=True, alone=True)
