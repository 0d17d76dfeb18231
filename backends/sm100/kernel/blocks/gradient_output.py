"""What leaves a backward kernel: dQ of a step into the sum in global memory, dK and dV of a key tile."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import LANES, PART
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.gradient_memory import QUAD, put_words, row_address
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.cute.kernel.query_walk import KeyAt
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import tensor_memory
from cutlass import Boolean, Float32, Int32, Int64

PIECE = 16  # columns of dK and dV that a thread holds at a time


def load_query_gradient(plan: BackwardPlan, tiles: BackwardTiles, thread: Any, columns: range) -> list[Int32]:
    """Columns of a row of dQ."""
    address = tensor_memory.warp_address(tiles.starts.load(), plan.dq_column, thread // 32)
    words = [word for first in columns for word in f32.words(tensor_memory.load(address + first, plan.chunk))]
    tensor_memory.wait_loads()
    return words


def stage(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, chunk: int, thread: Any, words: list[Int32]) -> None:
    """Columns of dQ of this thread's query to shared memory, as [column / 4][query][column % 4]: no two threads share a bank.

    Where there are parts a thread has a column, and the order is [query][column].
    """
    start = tiles.shared + plan.dq_offset + slot(find(pipes, f"dq_out_{chunk}"), now) * plan.dq_stride
    if plan.parts > 1:
        for query, word in enumerate(words):
            ptx("st.shared.b32 [{$r0}], {$r1};", start + thread * 4 + query * (LANES * 4), word)
        return
    place = start + thread * 16
    for first in range(0, plan.chunk, QUAD):
        text = "st.shared.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};"
        ptx(text, place + first * (plan.tile_q * 4), *words[first : first + QUAD])


@cute.jit
def finish(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    pipes: Pipes,
    name: cutlass.Constexpr,
    end: Now,
    at: KeyAt,
    thread: Int32,
    scale: cutlass.Constexpr,
    has_steps: Boolean,
):
    """This thread's key of dK or dV, times the scale, to global memory; zeros for a tile without steps.

    Waits, once a tile that has steps: the sum complete. Signals: it is read. Keys beyond the sequence are not written.
    """
    is_value = name == "store_dv"
    tensor, column, width = (tiles.dv, plan.dv_column, plan.head_dim_v) if is_value else (tiles.dk, plan.dk_column, plan.head_dim)
    key = at.key + thread
    exists = key < at.sequence.keys
    factor = Float32(1.0) if scale is None else scale(at)
    row = at.sequence.key_given + cutlass.min(key, at.sequence.keys - 1)
    target = row_address(tensor, at.sequence.key_axis_given, row, at.hkv)
    limit: Any = width
    if cutlass.const_expr(plan.parts > 1):
        first_column = Int32(at.part) * PART
        target, limit, width = target + Int64(first_column) * 2, width - first_column, min(width, PART)
    if has_steps:
        before(pipes, name, None, end, once=True)
        address = tensor_memory.warp_address(tiles.starts.load(), column, thread // 32)
        for first in cutlass.range_constexpr(0, width, PIECE):
            values = tensor_memory.load(address + first, PIECE)
            tensor_memory.wait_loads()
            words = f32.narrow([value * factor for value in values] if scale is not None else values, plan.element)
            _put(target, first, width, words, exists, limit)
        after(pipes, name, None, end, once=True)
    else:
        for first in cutlass.range_constexpr(0, width, PIECE):
            _put(target, first, width, [Int32(0)] * (PIECE // 2), exists, limit)


def _put(target: Int64, first: int, width: int, words: list[Int32], exists: Any, limit: Any) -> None:
    """16 columns of a row, of which the last 8 may be padding. limit: columns that there are, where that is not the width."""
    for at in range(0, min(PIECE, width - first), 8):
        is_there = exists if isinstance(limit, int) else exists & (first + at < limit)
        put_words(target + (first + at) * 2, words[at // 2 : at // 2 + 4], is_there)
