"""What leaves a warpgroup of the backward: dS and dQ of a step to shared memory, dK and dV of a key tile to global memory."""

from collections.abc import Sequence
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardTiles
from attnspec.backends.cute.kernel.backward_plan import PART
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.gradient_memory import QUAD, put_words, row_address
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
BLOCK_COLUMNS = 16  # of dQ, that a warp has
GROUP_BLOCKS = 4  # that a warpgroup has
LANES = 4  # that have eight columns of a row together


def ds_start(plan: BackwardPlan, step: Any) -> Any:
    """Where dS of a step is, in bytes from the start of shared memory."""
    return plan.ds_offset if plan.ds_slots == 1 else plan.ds_offset + (step & 1) * plan.ds_stride


def write_ds(plan: BackwardPlan, tiles: BackwardTiles, place: Place, step: Any, words: Sequence[Int32]) -> None:
    """dS^T of this thread, turned: [block of 64 keys][query][64 keys], rows of 128 bytes with the 128-byte swizzle."""
    warp, row = place.thread // WARP, place.lane % MATRIX_ROWS
    piece = warp * (WARP_ROWS // MATRIX_ROWS) + place.lane // MATRIX_ROWS % 2
    query = place.lane // (2 * MATRIX_ROWS) * MATRIX_ROWS + row
    start = tiles.shared + ds_start(plan, step) + place.group * plan.box_bytes
    address = Int32(start + query * plan.row_bytes + (piece ^ row) * PIECE_BYTES)
    for at in range(0, len(words), WORDS):
        offset = at // WORDS * (2 * MATRIX_ROWS * plan.row_bytes)
        text = f"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [{{$r0}}+{offset}], {{{{$r1}}, {{$r2}}, {{$r3}}, {{$r4}}}};"
        ptx(text, address, *words[at : at + WORDS])


def dq_offset(plan: BackwardPlan, block: Any, octet: Any, lane: Any) -> Any:
    """Bytes from the start of dQ of a step, or of its sum, to what a lane has of 16 columns and eight queries: column lane / 4 of
    two queries, then the column eight further on. So what a warp stores or loads at once is one run.

    block, octet: which 16 columns, and which eight queries.
    """
    return block * (plan.tile_q * BLOCK_COLUMNS * 4) + octet * (WARP * PIECE_BYTES) + lane * PIECE_BYTES


def write_dq(plan: BackwardPlan, tiles: BackwardTiles, pipes: Pipes, now: Now, place: Place, dq: Sequence[Float32]) -> None:
    """dQ of this thread to its slot."""
    start = tiles.shared + plan.dq_offset + slot(find(pipes, "dq_out_0"), now) * plan.dq_stride
    block = place.thread // WARP + (0 if plan.splits_queries else place.group * GROUP_BLOCKS)
    octet = place.group * (plan.dq_queries // EIGHT) if plan.splits_queries else 0
    made = (1 if plan.splits_queries else plan.tile_kv // GROUP_ROWS) * GROUP_BLOCKS * BLOCK_COLUMNS
    is_there = None if made <= plan.dk_width else block * BLOCK_COLUMNS < plan.dk_width
    _put_dq(plan, Int32(start + dq_offset(plan, block, octet, place.lane)), dq, is_there)


@cute.jit
def write_own_dq(plan, tiles, pipes, now: Now, place: Place, chunk: cutlass.Constexpr, dq: tuple):
    """The same of the warpgroup whose chunk it is: all queries, its columns."""
    if place.group == chunk:
        start = tiles.shared + plan.dq_offset + slot(find(pipes, f"dq_out_{chunk}"), now) * plan.dq_stride
        _put_dq(plan, Int32(start + dq_offset(plan, place.thread // WARP, 0, place.lane)), dq, None)


def _put_dq(plan: BackwardPlan, address: Any, dq: Sequence[Float32], is_there: Any) -> None:
    """Eight queries after the other. is_there: whether the warp's columns are some of the head dimension; None: they are."""
    for octet in range(len(dq) // QUAD):
        offset, four = dq_offset(plan, 0, octet, 0), dq[octet * QUAD : (octet + 1) * QUAD]
        text = f"st.shared.v4.f32 [{{$r0}}+{offset}], {{{{$r1}}, {{$r2}}, {{$r3}}, {{$r4}}}};"
        if is_there is None:
            ptx(text, address, *four)
        else:
            ptx(f"{{.reg .pred p; setp.ne.b32 p, {{$r5}}, 0; @p {text}}}", address, *four, Int32(is_there))


def write_gradient(plan: BackwardPlan, tensor: Any, place: Place, at: KeyAt, values: Sequence[Float32], width: int) -> None:
    """This thread's part of dK or dV to global memory, 16 bytes at a time; keys beyond the sequence are not written."""
    words, lane = f32.narrow(values, plan.element), place.lane % LANES
    first = 0 if plan.parts == 1 else at.part * plan.part_step(width)
    for half in range(2):
        key = at.key + place.rows[half]
        exists = key < at.sequence.keys
        row = at.sequence.key_given + Int32(cutlass.min(key, at.sequence.keys - 1))
        target = row_address(tensor, at.sequence.key_axis_given, row, at.hkv) + (first + lane * EIGHT) * 2
        own = words[half::2]
        for eight in range(0, len(own), LANES):
            four = [*own[eight : eight + LANES], *[Int32(0)] * (eight + LANES - len(own))]
            column, is_there = first + (eight + lane) * EIGHT, exists
            if plan.parts > 1:  # the last part may begin with columns of the one before
                is_there = is_there & (column >= at.part * PART)
            if plan.parts > 1 or (eight + LANES) * EIGHT > width:
                is_there = is_there & (column < width)
            put_words(target + eight * EIGHT * 2, turned(four, lane), is_there)


def turned(words: list[Int32], lane: Any) -> list[Int32]:
    """Of four lanes' words i, i = 0 to 3, those that lane i of the four then has: of a row, what lies beside each other."""
    found = list(words)
    for bit in (1, 2):
        is_upper = (lane & bit) != 0
        for low in (at for at in range(LANES) if not at & bit):
            one, other = found[low], found[low + bit]
            sent = Int32(cutlass.select_(is_upper, one, other))
            got = ptx(f"shfl.sync.bfly.b32 {{$w0}}, {{$r0}}, {bit}, 31, 0xffffffff;", sent, returns=[Int32])
            found[low] = Int32(cutlass.select_(is_upper, got, one))
            found[low + bit] = Int32(cutlass.select_(is_upper, other, got))
    return found
