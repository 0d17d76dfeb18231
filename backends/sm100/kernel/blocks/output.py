"""The end of a row: normalise O, put it in shared memory as TMA wants it, and its log-sum-exp."""

import math
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from attnspec.backends.sm100.kernel.blocks.ptx import ptx
from attnspec.backends.sm100.kernel.bundles import Mods, Tiles
from attnspec.backends.sm100.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.sm100.kernel.plan import Plan
from attnspec.backends.sm100.kernel.work import At
from cutlass import Boolean, Float32, Int32

CHUNK = 16  # columns of O moved at a time: what a thread holds in registers
LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)


@cute.jit
def finish(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    mods: Mods,
    lane: cutlass.Constexpr,
    end: Now,
    at: At,
    has_steps: Boolean,
):
    """End of a query tile: O of every row normalised and put in shared memory, its log-sum-exp in global memory.

    Waits: the row's sum; O complete, if the tile had steps (otherwise O = 0); the output slot empty. Signals: output full; the
    statistics read; O read.
    """
    thread = cute.arch.thread_idx()[0] % plan.tile_q
    before(pipes, "finish", lane, end)
    stats = tiles.stats + (lane * 2 * plan.tile_q + thread)
    scale, lse = normalise(mods, at, stats.load(), (stats + plan.tile_q).load())
    if has_steps:
        before(pipes, "finish", lane, end, once=True)
        column = plan.o_column + lane * plan.o_column_stride
        address = tensor_memory.warp_address(tiles.starts.load(), column, thread // 32)
        write_shared(plan, tiles, pipes, lane, end, thread, address, scale)
        after(pipes, "finish", lane, end, once=True)
    else:
        write_zeros(plan, tiles, pipes, lane, end, thread)
    q = at.q_base + thread
    if q < at.sizes.len_q:
        tiles.lse[at.b, at.h, q] = lse
    after(pipes, "finish", lane, end)


def scale_in_place(plan: Plan, address: Any, factor: Float32) -> None:
    """O *= factor in tensor memory, for this thread's row; the stores are fenced by whoever signals."""
    for column in range(0, plan.width_v, CHUNK):
        values = _scaled(address + column, factor)
        tensor_memory.store(address + column, tensor_memory.words(values))


def _scaled(address: Any, factor: Float32) -> cute.Tensor:
    """A chunk of this thread's row of O, times `factor`."""
    values = cute.make_rmem_tensor(CHUNK, Float32)
    for index, value in enumerate(tensor_memory.load(address, CHUNK)):
        values[index] = value
    tensor_memory.wait_loads()
    for index in range(0, CHUNK, 2):
        pair = (values[index], values[index + 1])
        values[index], values[index + 1] = cute.arch.mul_packed_f32x2(pair, (factor, factor))
    return values


def normalise(mods: Mods, at: At, row_sum: Float32, row_max: Float32) -> tuple[Float32, Float32]:
    """Factor for the row of O, and its log-sum-exp in natural log (-inf for a row that sees nothing and has no sink)."""
    peak = row_max * mods.to_log2
    if mods.sink is None:
        is_empty = row_sum == Float32(0.0)
        scale = Float32(cutlass.select_(is_empty, Float32(0.0), Float32(1.0) / row_sum))
        lse = (peak + cute.math.log2(row_sum)) * LN_2
        return scale, Float32(cutlass.select_(is_empty, -Float32.inf, lse))
    sink = mods.sink(at) * LOG2_E
    top = cute.arch.fmax(peak, sink)
    own = cute.math.exp2(peak - top, fastmath=True)
    total = row_sum * own + cute.math.exp2(sink - top, fastmath=True)
    is_empty = top == -Float32.inf
    scale = Float32(cutlass.select_(is_empty, Float32(0.0), own / total))
    lse = (top + cute.math.log2(total)) * LN_2
    return scale, Float32(cutlass.select_(is_empty, -Float32.inf, lse))


def _row_address(plan: Plan, tiles: Tiles, pipes: Pipes, lane: int, now: Now, thread: Any) -> Any:
    pipe = find(pipes, "out", lane)
    copy = lane if pipe.copies else slot(pipe, now)
    return tiles.shared + plan.o_offset + copy * plan.o_stride + thread * plan.row_bytes


def _put(plan: Plan, address: Any, thread: Any, piece: int, words: list[Int32]) -> None:
    """Store 16 bytes, the `piece`-th of the row, where the 128-byte swizzle has them (PTX ISA, swizzling modes)."""
    per_row = plan.row_bytes // 16
    block, chunk = divmod(piece, per_row)
    place = address + block * plan.box_bytes + ((thread % per_row) ^ chunk) * 16
    ptx("st.shared.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};", place, *words)


def write_shared(plan: Plan, tiles: Tiles, pipes: Pipes, lane: int, now: Now, thread: Any, address: Any, scale: Float32) -> None:
    """The thread's row of O, times `scale`, in the output type."""
    row = _row_address(plan, tiles, pipes, lane, now, thread)
    for column in range(0, plan.width_v, CHUNK):
        values = _scaled(address + column, scale)
        packed = cute.make_rmem_tensor(CHUNK // 2, Int32)
        narrow = cute.make_tensor(cute.recast_ptr(packed.iterator, dtype=plan.element), cute.make_layout(CHUNK))
        narrow.store(values.load().to(plan.element))
        for half in range(2):
            _put(plan, row, thread, column // 8 + half, [packed[half * 4 + index] for index in range(4)])


def write_zeros(plan: Plan, tiles: Tiles, pipes: Pipes, lane: int, now: Now, thread: Any) -> None:
    """A row of zeros."""
    row = _row_address(plan, tiles, pipes, lane, now, thread)
    for piece in range(plan.width_v // 8):
        _put(plan, row, thread, piece, [Int32(0)] * 4)
