"""sum(out * dout) of each row of a query tile, summed as dP is: by the tensor core, of out for V.

Where a row sees one key alone, out is that key's value, bit for bit; dP and this are then the same bits, and dP - delta is 0.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel import host
from attnspec.backends.cute.kernel.backward_plan import LANES
from attnspec.backends.cute.kernel.bundles import Box
from attnspec.backends.sm100.kernel.backward_plan import WORD_BYTES, BackwardPlan
from attnspec.backends.sm100.kernel.blocks import tensor_core, tensor_memory
from cutlass import Boolean, Float32, Int32, Int64
from cutlass.cute.nvgpu import tcgen05

WARP = 32
TILE_ALIGNMENT = 1024  # 128-byte swizzle


@dataclass(frozen=True)
class RowTiles:
    """Memory of the pass: out in boxes of 128 rows, dout in boxes of a query tile's. words: two barriers, then two words."""

    out: Box
    dout: Box
    shared: Any
    words: Any


def row_tiles(plan: BackwardPlan, out_atom: Any, out: Any, dout_atom: Any, dout: Any) -> RowTiles:
    """The pass's shared memory, taken."""
    shared = cutlass.memory.SmemAllocator().allocate(plan.row_tiles_bytes, TILE_ALIGNMENT)
    boxes = -(-plan.head_dim_v // plan.box_columns)
    dout_box = host.box(plan, dout_atom, dout, shared, boxes * LANES * plan.row_bytes, boxes)
    words = cute.recast_ptr(shared + (plan.row_tiles_bytes - WORD_BYTES), dtype=Int64)
    return RowTiles(host.box(plan, out_atom, out, shared, 0, boxes, LANES), dout_box, shared.toint(), words)


@cute.jit
def row_products(plan: BackwardPlan, tiles: RowTiles, place: tuple, exists: Boolean):
    """All 128 threads call this; the sum of this thread's row, 0 where the tile has no rows, and in threads beyond the tile.

    place: TMA coordinates of the tile, (first row, head, outermost axis). exists: whether any of its rows does.
    """
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    full, done, start = tiles.words, tiles.words + 1, cute.recast_ptr(tiles.words + 2, dtype=Int32)
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init(done, 1)
        cute.arch.mbarrier_init_fence()
        tensor_memory.allocate(start, LANES, 1)
    cute.arch.sync_threads()
    total = Float32(0.0)
    if exists:
        if warp == 0:
            _multiply(plan, tiles, place, full, done, start)
        cute.arch.mbarrier_wait(done, Int32(0))
        tensor_memory.wait_order()
        if warp < plan.tile_q // WARP:
            total = _diagonal(start, warp)
    cute.arch.sync_threads()
    if warp == 0:
        tensor_memory.release(start.load(), LANES, 1)
    return total


def _multiply(plan: BackwardPlan, tiles: RowTiles, place: tuple[Any, Any, Any], full: Any, done: Any, start: Any) -> None:
    """Both tiles to shared memory, and their product, a row of dout a column."""
    row, head, axis = place
    boxes = -(-plan.head_dim_v // plan.box_columns)
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(full, boxes * (LANES + plan.tile_q) * plan.row_bytes)
    for box in (tiles.out, tiles.dout):
        for column in range(boxes):
            cute.copy(box.atom, box.source[None, row, column, head, axis], box.boxes[None, column], tma_bar_ptr=full)
    cute.arch.mbarrier_wait(full, Int32(0))
    out = tensor_core.descriptor_start(tiles.shared)
    dout = out + (boxes * LANES * plan.row_bytes >> 4)
    code = tensor_core.instruction(plan.is_bf16, LANES, plan.tile_q, False)
    tensor_core.query_key(start.load(), out, dout, plan.width_v, (LANES, plan.tile_q), code)
    with cute.arch.elect_one():
        tcgen05.commit(done)


def _diagonal(start: Any, warp: Any) -> Float32:
    """Element (row, row) of this thread's row."""
    values = tensor_memory.load(tensor_memory.warp_address(start.load(), warp * WARP, warp), WARP)
    tensor_memory.wait_loads()
    lane, found = cute.arch.lane_idx(), values[0]
    for index in range(1, WARP):
        found = Float32(cutlass.select_(lane == index, values[index], found))
    return found
