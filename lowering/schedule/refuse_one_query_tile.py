"""Which variants cannot have one query tile with two key tiles a step, told before any scheduling."""

from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.forward import NARROW, TILE_Q, tile_shape
from attnspec.lowering.schedule.complete import statement
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported

LARGEST = TILE_Q  # of a head: q, two slots of keys, two of values and the output take 192 KB of shared memory
INSTEAD = "leave query_tiles out for the form that fits"


def one_query_tile_reason(analysed: Analysed, limits: Limits) -> str | None:
    """Why not; None where a variant can have it."""
    if not limits.tensor_columns:
        return f"a step of {limits.target} has one key tile"
    if max(analysed.spec.head_dim, analysed.spec.head_dim_v) > LARGEST:
        return f"two key tiles a step (query_tiles=1) take head dimensions up to {LARGEST}"
    return None


def refuse_query_tiles(analysed: Analysed, limits: Limits, query_tiles: Literal[1, 2] | None, ctas: int | None) -> None:
    """Raise `Unsupported` for a number of query tiles that a variant's forward cannot have on this chip.

    ctas: that the user wants to share a work tile.
    """
    if query_tiles is None:
        return
    dims = statement((analysed.spec.head_dim, analysed.spec.head_dim_v))
    if not limits.tensor_columns:
        raise Unsupported(f"query_tiles = {query_tiles}", f"query tiles are chosen on sm100, not on {limits.target}; {INSTEAD}")
    if query_tiles == 2 and tile_shape(analysed.spec) != NARROW:
        raise Unsupported(dims, f"two query tiles (query_tiles=2) do not fit for these heads; {INSTEAD}")
    reason = one_query_tile_reason(analysed, limits) if query_tiles == 1 else None
    if reason is not None:
        raise Unsupported(dims, f"{reason}; {INSTEAD}")
    if query_tiles == 1 and ctas == 2:
        raise Unsupported("query_tiles = 1", "a pair of CTAs (ctas=2) shares two query tiles of each; ask for one of the two")
