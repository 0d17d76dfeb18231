"""What leaves a warpgroup of the backward: dS and dQ of a step to shared memory, dK and dV of a key tile to global memory."""

from collections.abc import Sequence
from typing import Any

import cutlass
from attnspec.backends.cute.kernel.backward_bundles import BackwardTiles
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.gradient_memory import QUAD, row_address
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.pipes import Now, Pipes, find, slot
from attnspec.backends.cute.kernel.query_walk import KeyAt
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks.held import GROUP_ROWS, WARP, WARP_ROWS, Place
from attnspec.backends.sm90.kernel.blocks.rows import EIGHT
from cutlass import Float32, Int32

MATRIX_ROWS = 8  # of a tile that stmatrix stores
WORDS = 4  # of an stmatrix of four: 16 keys, 16 queries
PIECE_BYTES = 16


def write_ds(plan: BackwardPlan, tiles: BackwardTiles, place: Place, step: Any, words: Sequence[Int32]) -> None:
    """dS^T of this thread, turned: [block of 64 keys][query][64 keys], rows of 128 bytes with the 128-byte swizzle."""
    warp, row = place.thread // WARP, place.lane % MATRIX_ROWS
    piece = warp * (WARP_ROWS // MATRIX_ROWS) + place.lane // MATRIX_ROWS % 2
    query = place.lane // (2 * MATRIX_ROWS) * MATRIX_ROWS + row
    start = tiles.shared + plan.ds_offset + (step & 1) * plan.ds_stride + place.group * plan.box_bytes
    address = Int32(start + query * plan.row_bytes + (piece ^ row) * PIECE_BYTES)
    for at in range(0, len(words), WORDS):
        offset = at // WORDS * (2 * MATRIX_ROWS * plan.row_bytes)
        text = f"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [{{$r0}}+{offset}], {{{{$r1}}, {{$r2}}, {{$r3}}, {{$r4}}}};"
        ptx(text, address, *words[at : at + WORDS])


def write_dq(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, place: Place, dq: Sequence[Float32]) -> None:
    """dQ of this thread to its slot, as [column / 4][query][column % 4]."""
    row, column = place.thread // WARP * WARP_ROWS + place.lane // 4, place.lane % 4 * 2
    if plan.splits_queries:
        row += place.group * GROUP_ROWS
    else:
        column += place.group * plan.share
    start = tiles.shared + plan.dq_offset + slot(find(pipes, "dq_out_0"), now) * plan.dq_stride
    stride = plan.tile_q * PIECE_BYTES
    address = Int32(start + column // QUAD * stride + row * PIECE_BYTES + column % QUAD * 4)
    for index in range(0, len(dq), 2):
        eight, half = index // 4, index // 2 % 2
        offset = eight * (EIGHT // QUAD) * stride + half * (WARP_ROWS // 2 * PIECE_BYTES)
        if plan.splits_queries:
            ptx(f"st.shared.v2.f32 [{{$r0}}+{offset}], {{{{$r1}}, {{$r2}}}};", address, *dq[index : index + 2])
        else:  # columns beyond the head dimension are padding
            text = f"{{.reg .pred p; setp.ne.b32 p, {{$r3}}, 0; @p st.shared.v2.f32 [{{$r0}}+{offset}], {{{{$r1}}, {{$r2}}}};}}"
            ptx(text, address, *dq[index : index + 2], Int32(column + eight * EIGHT < plan.width_qk))


def write_gradient(plan: BackwardPlan, tensor: Any, place: Place, at: KeyAt, values: Sequence[Float32], width: int) -> None:
    """This thread's part of dK or dV to global memory; keys beyond the sequence are not written."""
    words = f32.narrow(values, plan.element)
    column = place.lane % 4 * 2
    for half in range(2):
        key = at.key + place.rows[half]
        exists = Int32(key < at.sequence.keys)
        row = at.sequence.key_given + Int32(cutlass.min(key, at.sequence.keys - 1))
        target = row_address(tensor, at.sequence.key_axis_given, row, at.hkv) + column * 2
        for eight in range(width // EIGHT):
            text = f"{{.reg .pred p; setp.ne.b32 p, {{$r2}}, 0; @p st.global.b32 [{{$r0}}+{eight * EIGHT * 2}], {{$r1}};}}"
            ptx(text, target, words[eight * 2 + half], exists)
