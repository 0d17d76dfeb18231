"""Global memory of the backward: rows of results, and dQ of a step into its sum."""

from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import LANES, BackwardWidths
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.pipes import Now, Pipes, find, slot
from cutlass import Int32, Int64

QUAD = 4  # f32 values of 16 bytes


def add(plan: BackwardWidths, tiles: BackwardTiles, pipes: Pipes, now: Now, chunk: int, row_tile: Any) -> None:
    """A chunk of dQ added to the sum of its query tile, or of a part or a share of it (PTX ISA, cp.reduce.async.bulk)."""
    source = tiles.shared + plan.dq_offset + slot(find(pipes, f"dq_out_{chunk}"), now) * plan.dq_stride
    offset = Int64(row_tile) * (plan.sum_width * plan.tile_q // plan.ctas) + chunk * plan.chunk * LANES
    target = (tiles.sum_dq.iterator + offset).toint()
    text = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [{$r0}], [{$r1}], {$r2};"
    count = Int32(plan.chunk * LANES * 4)
    with cute.arch.elect_one():
        ptx(text, Int64(target), source, count)
    cute.arch.cp_async_bulk_commit_group()
    cute.arch.cp_async_bulk_wait_group(0, read=True)


def row_address(tensor: cute.Tensor, b: Any, row: Any, head: Any) -> Int64:
    """Address of a row of a (batch, length, heads, width) tensor."""
    strides = tensor.stride
    offset = Int64(b) * Int64(strides[0]) + Int64(row) * Int64(strides[1]) + Int64(head) * Int64(strides[2])
    return Int64((tensor.iterator + offset).toint())


def put_words(target: Int64, words: list[Any], exists: Any) -> None:
    """16 bytes to global memory, if the row is one of the sequence."""
    text = "{.reg .pred p; setp.ne.b32 p, {$r5}, 0; @p st.global.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};}"
    ptx(text, target, *words, Int32(exists))
