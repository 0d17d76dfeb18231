"""How a call of some shape is cut into work tiles, and why: heads of a group side by side, parts of the keys."""

from typing import TYPE_CHECKING

from attnspec.cli.shape import CallShape

if TYPE_CHECKING:
    from attnspec.lowering.analysis.analysed import Analysed
    from attnspec.lowering.dataflow.graph import Dataflow
    from attnspec.lowering.schedule.limits import Limits
    from attnspec.lowering.schedule.schedule import Schedule


def show_work(analysed: "Analysed", schedule: "Schedule", shape: CallShape, limits: "Limits") -> str:
    """Rows and heads of a work tile, how many tiles there are, what `splits=None` would make of them; one query tile or two."""
    from attnspec.lowering.dataflow.tensor_tiles import packing_of
    from attnspec.lowering.schedule.choose_query_tiles import explain_query_tiles
    from attnspec.lowering.schedule.cut import blocks, choose_parts, choose_rows, count_tiles

    flow = schedule.dataflow
    whole, group = flow.tile_q * flow.query_tiles * flow.ctas, shape.heads // shape.kv_heads
    found = packing_of(analysed, flow)
    rows = choose_rows(shape.len_q, group, whole) if found.is_allowed else whole
    tiles = count_tiles(shape.batch, shape.kv_heads, group, shape.len_q, rows, whole)
    parts = choose_parts(tiles * flow.ctas, blocks(shape.len_kv, flow.tile_kv), limits.multiprocessors)
    heads = min(whole // rows, group)
    held = f"{rows} rows of each of {heads} heads of a group" if rows < whole else f"{whole} rows of one head"
    beside = group if found.is_allowed else 1
    lines = [
        f"work tiles of the forward at batch {shape.batch}, {shape.heads} heads over {shape.kv_heads}, q {shape.len_q:,}",
        f"  {tiles:,} tiles of {held}, for {limits.multiprocessors} multiprocessors",
        f"  heads in a tile: {found.reason}",
        f"  parts of the keys: splits=None would share the keys of each tile out to {parts}; splits=1, the default, to one",
        *_tensor_tiles(analysed, flow),
        explain_query_tiles(analysed, limits, flow.query_tiles, shape.len_q * beside),
    ]
    return "\n".join(lines)


def _tensor_tiles(analysed: "Analysed", flow: "Dataflow") -> list[str]:
    """A line for each tensor of which TMA brings tiles."""
    from attnspec.lowering.analysis.staging import stage
    from attnspec.lowering.dataflow.tensor_tiles import tiled_tensors, tiles_of

    tiles = tiles_of(flow)
    sizes = [(tensor.name, flow.buffer(f"tile{at}").size) for at, tensor in enumerate(tiled_tensors(analysed.spec, flow))]
    slot = "one slot that query tiles use in turn" if tiles.in_turn else "a slot of its own"
    rows = [f"  tiles of {name}: {size:,} bytes a query tile and step, through TMA, to {slot}" for name, size in sizes]
    if rows and tiles.alone and stage(analysed.spec).values:
        rows.append("  values of keys and distances: threads load them, they have no room beside the tiles")
    return rows
