"""Results over parts of the keys, put together: the kernel that follows one whose work tiles share out keys.

A part leaves each row's products, not divided by anything (f32, `width_v` numbers), and their maximum and sum: what the row would
go on with. A log-sum-exp alone would not do, which at scores of -65536 is known to 2^-8. Parts are added in their order: the bits
depend on how many there are, and on nothing else.
"""

from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.row_end import log_sum
from attnspec.backends.cute.kernel.plan import Widths
from cutlass import Boolean, Float32, Int32, Int64, Uint32

THREADS = 128
COLUMNS = 4  # that a thread puts together: 16 bytes of a part


def row_number(lse: cute.Tensor, part: Any, axis: Any, h: Any, row: Any) -> Int64:
    """Number of a row among those of all parts. axis, h, row: as in the log-sum-exps, whose shape tells how many there are."""
    axes, heads, rows = lse.shape
    return ((Int64(part) * axes + axis) * rows + row) * heads + h


@cute.jit
def merge(
    plan: cutlass.Constexpr,
    to_log2: cutlass.Constexpr,
    out: cute.Tensor,
    lse: cute.Tensor,
    parts_out: cute.Tensor,
    parts_stats: cute.Tensor,
    parts: Int32,
    stream: cuda.CUstream,
):
    """Launch the kernel, if there is more than one part."""
    if parts > 1:
        axes, heads, rows = lse.shape
        threads = Int64(axes) * heads * rows * (plan.width_v // COLUMNS)
        ctas = Int32((threads + (THREADS - 1)) // THREADS)
        launched = merge_kernel(plan, to_log2, out, lse, parts_out, parts_stats, parts)
        launched.launch(grid=[ctas, 1, 1], block=[THREADS, 1, 1], stream=stream)


@cute.kernel
def merge_kernel(
    plan: cutlass.Constexpr,
    to_log2: cutlass.Constexpr,
    out: cute.Tensor,
    lse: cute.Tensor,
    parts_out: cute.Tensor,
    parts_stats: cute.Tensor,
    parts: Int32,
):
    """A thread for a few columns of a row."""
    axes, heads, rows = lse.shape
    across = plan.width_v // COLUMNS
    number = Int64(cute.arch.block_idx()[0]) * THREADS + cute.arch.thread_idx()[0]
    all_rows = Int64(axes) * heads * rows
    row = number // across
    if row < all_rows:
        column = Int32(number - row * across) * COLUMNS
        top = Float32(-Float32.inf)
        for part in cutlass.range(parts, unroll=1):
            top = f32.larger(top, _stat(parts_stats, 2 * (all_rows * part + row)))
        base = Float32(cutlass.select_(top == -Float32.inf, Float32(0.0), top))
        total, o0, o1, o2, o3 = Float32(0.0), Float32(0.0), Float32(0.0), Float32(0.0), Float32(0.0)
        for part in cutlass.range(parts, unroll=1):
            own_row = all_rows * part + row
            weight = cute.math.exp2((_stat(parts_stats, 2 * own_row) - base) * to_log2, fastmath=True)
            p0, p1, p2, p3 = _columns(plan, parts_out, own_row, column)
            total += weight * _stat(parts_stats, 2 * own_row + 1)
            o0, o1, o2, o3 = o0 + weight * p0, o1 + weight * p1, o2 + weight * p2, o3 + weight * p3
        is_empty = total == Float32(0.0)
        factor = Float32(cutlass.select_(is_empty, Float32(0.0), Float32(1.0) / total))
        head = Int32(row % heads)
        place = row // heads
        axis, own = Int32(place // rows), Int32(place % rows)
        if column == 0:
            lse[axis, head, own] = Float32(cutlass.select_(is_empty, -Float32.inf, log_sum(base, to_log2, total)))
        values = [o0 * factor, o1 * factor, o2 * factor, o3 * factor]
        _store(plan, out, (axis, own, head, column), values, column < plan.head_dim_v)


def _stat(parts_stats: cute.Tensor, at: Int64) -> Float32:
    return Float32((parts_stats.iterator + at).load())


def _columns(plan: Widths, parts_out: cute.Tensor, row: Int64, column: Int32) -> tuple[Any, ...]:
    address = (parts_out.iterator + (row * plan.width_v + column)).toint()
    return ptx("ld.global.v4.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];", address, returns=[Float32] * COLUMNS)


@cute.jit
def _store(plan: cutlass.Constexpr, out: cute.Tensor, place: tuple, values: list, exists: Boolean):
    axis, row, head, column = place
    if exists:
        offset = Int64(axis) * out.stride[0] + Int64(row) * out.stride[1] + Int64(head) * out.stride[2] + column
        first, second = f32.narrow(values, plan.element)
        ptx("st.global.v2.b32 [{$r0}], {{$r1}, {$r2}};", (out.iterator + offset).toint(), Uint32(first), Uint32(second))
