"""Boxes of shared memory that no load writes: padding of a head dimension to whole parts, zero for as long as the CTA lives."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from cutlass import Int32

BYTES = 16  # that a thread clears at a time


@cute.jit
def clear_padding(plan: BackwardPlan, shared: Any):
    """All threads, before the roles part: the tensor core reads whole parts, and makes columns of what is padding."""
    _clear_tiles(plan, Int32(shared.toint()))
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.sync_threads()


def _clear_tiles(plan: BackwardPlan, start: Int32) -> None:
    tiles = (
        (plan.k_offset, 0, 1, plan.tile_kv, plan.head_dim),
        (plan.v_offset, 0, 1, plan.tile_kv, plan.head_dim_v),
        (plan.q_offset, plan.q_stride, plan.q_depth, plan.tile_q, plan.head_dim),
        (plan.do_offset, plan.do_stride, plan.do_depth, plan.tile_q, plan.head_dim_v),
    )
    for offset, stride, depth, rows, head_dim in tiles:
        box = rows * plan.row_bytes
        for slot in range(depth):
            for number in range(-(-head_dim // plan.box_columns), plan.boxes(head_dim)):
                _clear(start + (offset + slot * stride + number * box), box, plan.threads)


@cute.jit
def _clear(first: Int32, count: cutlass.Constexpr, threads: cutlass.Constexpr):
    for at in cutlass.range(cute.arch.thread_idx()[0] * BYTES, count, threads * BYTES, unroll=1):
        ptx("st.shared.v4.b32 [{$r0}], {{$r1}, {$r1}, {$r1}, {$r1}};", first + at, Int32(0))
