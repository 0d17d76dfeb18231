"""sum(out * dout) of each row of a query tile, summed as dP is: by the tensor core, of out for V.

Where a row sees one key alone, out is that key's value, bit for bit; dP and this are then the same bits, and dP - delta is 0.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel import host
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Box
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks import tensor_core
from attnspec.backends.sm90.kernel.blocks.held import GROUP_ROWS, WARP_ROWS
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT
from cutlass import Boolean, Float32, Int32, Int64

TILE_ALIGNMENT = 1024  # 128-byte swizzle
F32 = 4


@dataclass(frozen=True)
class RowTiles:
    """Memory of the pass: out in boxes of a key tile's rows, dout in boxes of a query tile's. products: a number a row; full:
    a barrier."""

    out: Box
    dout: Box
    shared: Any
    products: Any
    full: Any


def row_tiles(plan: BackwardPlan, out_atom: Any, out: Any, dout_atom: Any, dout: Any) -> RowTiles:
    """The pass's shared memory, taken."""
    shared = cutlass.memory.SmemAllocator().allocate(plan.row_tiles_bytes, TILE_ALIGNMENT)
    boxes = plan.boxes(plan.head_dim_v)
    first = boxes * plan.tile_kv * plan.row_bytes
    products = first + boxes * plan.box_bytes
    full = cute.recast_ptr(shared + (products + plan.tile_kv * F32), dtype=Int64)
    boxed = (host.box(plan, out_atom, out, shared, 0, boxes, plan.tile_kv), host.box(plan, dout_atom, dout, shared, first, boxes))
    return RowTiles(*boxed, shared.toint(), shared.toint() + products, full)


@cute.jit
def row_products(plan: BackwardPlan, tiles: RowTiles, place: tuple, exists: Boolean):
    """All threads of a warpgroup call this; the sum of this thread's row, 0 where the tile has no rows.

    place: TMA coordinates of the tile, (first row, head, outermost axis). exists: whether any of its rows does.
    """
    warp, thread = cute.arch.make_warp_uniform(cute.arch.warp_idx()), cute.arch.thread_idx()[0]
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(tiles.full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    total = Float32(0.0)
    if exists:
        if warp == 0:
            _load(plan, tiles, place)
        cute.arch.mbarrier_wait(tiles.full, Int32(0))
        for group in cutlass.range_constexpr(-(-plan.tile_q // GROUP_ROWS)):
            _multiply(plan, tiles, group, warp)
        cute.arch.sync_threads()
        if thread < plan.tile_q:
            total = ptx("ld.shared.f32 {$w0}, [{$r0}];", Int32(tiles.products + thread * F32), returns=[Float32])
    return total


def _load(plan: BackwardPlan, tiles: RowTiles, place: tuple[Any, Any, Any]) -> None:
    row, head, axis = place
    boxes = plan.boxes(plan.head_dim_v)
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(tiles.full, boxes * (plan.tile_kv + plan.tile_q) * plan.row_bytes)
    for box in (tiles.out, tiles.dout):
        for column in range(boxes):
            cute.copy(box.atom, box.source[None, row, column, head, axis], box.boxes[None, column], tma_bar_ptr=tiles.full)


def _multiply(plan: BackwardPlan, tiles: RowTiles, group: int, warp: Any) -> None:
    """64 rows of out by all of dout, as keys by queries, and what is on the diagonal to shared memory."""
    boxes = plan.boxes(plan.head_dim_v)
    out = tensor_core.descriptor_start(tiles.shared + group * GROUP_ROWS * plan.row_bytes)
    dout = tensor_core.descriptor_start(tiles.shared + boxes * plan.tile_kv * plan.row_bytes)
    values = tensor_core.query_key(out, dout, plan.width_v, (plan.tile_kv, plan.tile_q), plan.is_bf16)
    tensor_core.wait(0)
    lane = cute.arch.lane_idx()
    for half in range(2):
        found = Float32(0.0)
        # Columns of the diagonal: the rows' numbers.
        for at in range(min(GROUP_ROWS, plan.tile_q - group * GROUP_ROWS) // WARP_ROWS):
            first = 4 * ((group * GROUP_ROWS + at * WARP_ROWS) // EIGHT + half) + 2 * half
            own = cutlass.select_(lane // 4 % 2 == 0, values[first], values[first + 1])
            found = Float32(cutlass.select_(warp == at, own, found))
        row = group * GROUP_ROWS + warp * WARP_ROWS + half * EIGHT + lane // 4
        text = "{.reg .pred p; setp.ne.b32 p, {$r2}, 0; @p st.shared.f32 [{$r0}], {$r1};}"
        ptx(text, Int32(tiles.products + row * F32), found, Int32(lane % 4 == lane // EIGHT))
