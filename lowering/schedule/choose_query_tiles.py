"""Whether a work tile of the forward is two query tiles, or one that takes two key tiles a step, by the cost model.

One query tile has no circle through softmax and both products, so a step of it is shorter. But its keys and values serve half as
many rows: where two query tiles are there, L2 decides against it. Where a head has no more rows than one query tile, the second
of two would be empty, both forms load the same, and one wins. How many rows there are is known at a call, not when a kernel is
made, so this is for the user to say (`query_tiles=1`); two is what is made unasked.
"""

from dataclasses import dataclass
from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.forward import NARROW, TILE_Q, tile_shape
from attnspec.lowering.schedule.choose_ctas import STREAM_BYTES
from attnspec.lowering.schedule.choose_share import EQUAL, step_bound
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.refuse_one_query_tile import one_query_tile_reason


@dataclass(frozen=True)
class Estimate:
    """Cycles and bytes of a step of one form, which has `tiles` tiles of scores."""

    query_tiles: Literal[1, 2]
    work: float
    bytes: int
    tiles: int

    def cycles(self, rows: int | None = None) -> float:
        """What a tile of scores takes, by hand-overs and units or by its loads; rows: of a head, None: many."""
        there = self.tiles
        if rows is not None and rows <= TILE_Q:
            there = self.tiles // self.query_tiles  # the other query tile has no rows, and costs what it costs
        return max(self.work, self.bytes / STREAM_BYTES) / there


def estimate(analysed: Analysed, limits: Limits, query_tiles: Literal[1, 2]) -> Estimate:
    """What the model says of one form; no schedule is searched."""
    flow = draw(analysed, "forward", one_query_tile=query_tiles == 1)
    question = ask(flow, analysed, limits)
    work = step_bound(flow, question.dims, limits, question.expected)
    return Estimate(query_tiles, work, flow.streamed_bytes, flow.lanes)


def choose_query_tiles(analysed: Analysed, limits: Limits, rows: int | None = None) -> Literal[1, 2]:
    """Query tiles of a work tile for calls whose heads (or groups of heads side by side) have so many rows; None: many."""
    if one_query_tile_reason(analysed, limits) is not None or tile_shape(analysed.spec) != NARROW:
        return 2
    one, two = (estimate(analysed, limits, number).cycles(rows) for number in (1, 2))
    return 1 if one < two * (1 - EQUAL) else 2


def explain_query_tiles(analysed: Analysed, limits: Limits, chosen: int, rows: int) -> str:
    """Both forms in a line each, and which is taken."""
    reason = one_query_tile_reason(analysed, limits)
    if reason is not None:
        return f"query tiles a work tile: {chosen}; {reason}"
    lines = []
    for number in (2, 1):
        found = estimate(analysed, limits, number)
        loads = f"{found.bytes / STREAM_BYTES:.0f} by the {found.bytes:,} bytes that it loads"
        lines.append(
            f"  {number}: {found.cycles(rows):.0f} cycles or more for a tile of scores; a step has {found.tiles}, and takes "
            f"{found.work:.0f} by its hand-overs and units, {loads}"
        )
    best = choose_query_tiles(analysed, limits, rows)
    why = "as the model would choose" if best == chosen else f"and the model would choose {best} (query_tiles={best})"
    return "\n".join([f"query tiles a work tile: {chosen}, {why} for heads of {rows:,} rows", *lines])
