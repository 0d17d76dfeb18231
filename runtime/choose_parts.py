"""Into how many parts a call's keys are cut, for work tiles that share them out (split-KV)."""

from collections.abc import Mapping
from typing import Any

from attnspec.lowering.schedule.cut import blocks, choose_parts, choose_rows, count_tiles
from attnspec.runtime.call import Call

MOST_PARTS = 256


def parts_of(call: Call, splits: int | None, work: Mapping[str, Any], processors: int) -> int | None:
    """What the kernel is told; None for one that has no parts.

    splits: as given to `build`, None: as many as keep `processors` at work. work: of the manifest, the kernel's work tiles.
    """
    if not work:
        return None
    if splits is not None:
        return splits
    layout = call.layout
    rows = call.q.shape[0] // max(1, layout.batch) if layout.is_packed else call.q.shape[1]
    group = layout.heads // layout.kv_heads
    own = choose_rows(rows, group, work["rows"]) if work["packs"] else work["rows"]
    tiles = count_tiles(layout.batch, layout.kv_heads, group, rows, own, work["rows"])
    keys = call.k.shape[0] // max(1, layout.batch) if layout.is_packed else call.k.shape[1]
    return min(MOST_PARTS, choose_parts(tiles * work["ctas"], blocks(keys, work["keys"]), processors))
