"""The end of a row: normalise O, put it in shared memory as TMA wants it, and its log-sum-exp."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.row_end import normalise
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.work import At
from attnspec.backends.sm100.kernel.blocks import part_output, softmax_step, tensor_memory, unseen
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Boolean, Float32, Int32

CHUNK = 16  # columns of O moved at a time: what a thread holds in registers
PIECE_BYTES = 16


@cute.jit
def finish(
    plan: Plan,
    tiles: Tiles,
    pipes: Pipes,
    mods: Mods,
    lane: cutlass.Constexpr,
    end: Now,
    tile: Int32,
    whole: At,
    at: At,
    has_steps: Boolean,
):
    """End of a query tile: O of every row normalised and put in shared memory, its log-sum-exp in global memory.

    tile, whole: the work tile's number and place, at: the query tile's, and of the thread's own row.
    Waits: the row's sum; O complete, if the tile had steps (otherwise O = 0); the output slot empty. Signals: output full; the
    statistics read; O read.
    """
    thread = cute.arch.thread_idx()[0] % plan.tile_q
    before(pipes, "finish", lane, end)
    row_sum, row_max = _row_end(plan, tiles, mods, lane, thread)
    scale, lse = normalise(mods.to_log2, None if mods.sink is None else mods.sink(at), row_sum, row_max)
    factor, part_max, part_sum = part_output.with_sink(mods, at, row_sum, row_max)
    exists, is_whole = at.row + at.place < at.end, at.parts == 1
    products, statistics = part_output.place_of(plan, tiles, at)
    total = Float32(0.0)
    if has_steps:
        before(pipes, "finish", lane, end, once=True)
        column = plan.o_column + lane * plan.o_column_stride
        address = tensor_memory.warp_address(tiles.starts.load(), column, thread // 32)
        if cutlass.const_expr(mods.hides):  # noqa: SIM102 decided while tracing
            if tile < 0:
                unseen.show(plan, tiles, mods, whole, at, thread, address)
        if is_whole:
            total = write_shared(plan, tiles, pipes, lane, end, thread, address, scale)
        else:
            total = write_part(plan, address, factor, products, exists)
        if cutlass.const_expr(mods.hides):  # noqa: SIM102
            if tile >= 0:
                unseen.note(plan, tiles, tile, row_sum, total)
        after(pipes, "finish", lane, end, once=True)
    else:
        if is_whole:
            write_zeros(plan, tiles, pipes, lane, end, thread)
        else:
            part_output.zeros(plan, products, exists)
    if is_whole:
        if exists:
            tiles.lse[at.sequence.lse_axis, at.h, at.sequence.lse_row + at.row + at.place] = lse
    else:
        part_output.put_stats(statistics, part_max, part_sum, exists)
    after(pipes, "finish", lane, end)


def _row_end(plan: Plan, tiles: Tiles, mods: Mods, lane: int, thread: Any) -> tuple[Float32, Float32]:
    """A row's sum and maximum. Where lanes are key tiles each has a sum of its own, and the last one the later maximum."""
    ends = []
    for number in range(plan.key_tiles):
        stats = tiles.stats + ((lane + number) * 2 * plan.tile_q + thread)
        ends.append((stats.load(), (stats + plan.tile_q).load()))
    total, earlier = ends[0]
    for row_sum, row_max in ends[1:]:
        if mods.midpoint is None:
            total = total * softmax_step.brought(mods, earlier, row_max)
        total, earlier = total + row_sum, row_max
    return total, earlier


def scale_in_place(plan: Plan, address: Any, factor: Float32) -> None:
    """O *= factor in tensor memory, for this thread's row; the stores are fenced by whoever signals."""
    for column in range(0, plan.width_v, CHUNK):
        values = _apart(_scaled_pairs(address + column, factor))
        tensor_memory.store(address + column, f32.words(values))


def _scaled_pairs(address: Any, factor: Float32) -> list[Any]:
    """A chunk of this thread's row of O, times `factor`, in pairs."""
    values = tensor_memory.load(address, CHUNK)
    tensor_memory.wait_loads()
    factors = f32.twice(factor)
    return [f32.multiply(f32.pair(values[at], values[at + 1]), factors) for at in range(0, CHUNK, 2)]


def _apart(pairs: list[Any]) -> list[Float32]:
    return [value for pair in pairs for value in f32.apart(pair)]


def _row_addresses(plan: Plan, tiles: Tiles, pipes: Pipes, lane: int, now: Now, thread: Any) -> list[Any]:
    """Where the 16-byte pieces of a thread's row are, in the first box: the 128-byte swizzle exchanges them (PTX ISA)."""
    pipe = find(pipes, "out", lane)
    copy = lane if pipe.copies else slot(pipe, now)
    row = tiles.shared + plan.o_offset + copy * plan.o_stride + thread * plan.row_bytes
    pieces = plan.row_bytes // PIECE_BYTES
    return [row + ((thread % pieces) ^ piece) * PIECE_BYTES for piece in range(pieces)]


def _put(plan: Plan, row: list[Any], piece: int, words: list[Int32]) -> None:
    """Store 16 bytes, the `piece`-th of the row."""
    box, at = divmod(piece, len(row))
    ptx(f"st.shared.v4.b32 [{{$r0}}+{box * plan.box_bytes}], {{{{$r1}}, {{$r2}}, {{$r3}}, {{$r4}}}};", row[at], *words)


def write_shared(
    plan: Plan, tiles: Tiles, pipes: Pipes, lane: int, now: Now, thread: Any, address: Any, scale: Float32
) -> Float32:
    """The thread's row of O, times `scale`, in the output type. Gives a number that is NaN if the row is not finite."""
    row = _row_addresses(plan, tiles, pipes, lane, now, thread)
    total = f32.twice(0.0)
    for column in range(0, plan.width_v, CHUNK):
        pairs = _scaled_pairs(address + column, scale)
        total = unseen.has_infinite(pairs, total)
        words = f32.narrow(_apart(pairs), plan.element)
        for at in range(0, len(words), 4):
            _put(plan, row, (column // 2 + at) // 4, words[at : at + 4])
    low, high = f32.apart(total)
    return low + high


def write_part(plan: Plan, address: Any, scale: Float32, products: Any, exists: Any) -> Float32:
    """The same, to where results over parts of the keys go."""
    total = f32.twice(0.0)
    for column in range(0, plan.width_v, CHUNK):
        pairs = _scaled_pairs(address + column, scale)
        total = unseen.has_infinite(pairs, total)
        part_output.put_columns(products + column * part_output.WORD_BYTES, _apart(pairs), exists)
    low, high = f32.apart(total)
    return low + high


def write_zeros(plan: Plan, tiles: Tiles, pipes: Pipes, lane: int, now: Now, thread: Any) -> None:
    """A row of zeros."""
    row = _row_addresses(plan, tiles, pipes, lane, now, thread)
    for piece in range(plan.width_v // 8):
        _put(plan, row, piece, [Int32(0)] * 4)
