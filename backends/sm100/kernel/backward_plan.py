"""The numbers of one backward kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.backward_plan import LANES, BackwardWidths
from attnspec.backends.cute.kernel.plan import Step

WORD_BYTES = 32  # of the two barriers and two words of `row_products`


@dataclass(frozen=True)
class BackwardPlan(BackwardWidths):
    """Numbers of a backward kernel.

    Offsets in shared memory are bytes from the start of dynamic shared memory, in tensor memory 32-bit columns; `*_stride` is
    the distance between slots of a ring. planes: numbers a query row brings (f32 each). chunk: columns of dQ moved at a time, as
    they lie in tensor memory; dq_pieces: pieces in which a row of it is read. parts: times that a work tile is done, each for
    128 columns of dK, dV and dQ (`BackwardShape`); dQ is transposed then, lanes are its columns.
    programs: role kind -> its steps. query_tiles is 1: pipes have no copies.
    deterministic: sums over key tiles have one order, sums of learned tensors are exact. last_first: see `Widths`.
    """

    element: Any
    tile_q: int
    tile_kv: int
    query_tiles: int
    head_dim: int
    head_dim_v: int
    threads: int
    barriers: int
    planes: int
    chunk: int
    dq_pieces: int
    k_offset: int
    v_offset: int
    q_offset: int
    q_stride: int
    q_depth: int
    do_offset: int
    do_stride: int
    do_depth: int
    ds_offset: int
    dq_offset: int
    dq_stride: int
    rows_offset: int
    rows_stride: int
    barriers_offset: int
    starts_offset: int
    shared_bytes: int
    s_column: int
    p_column: int
    dv_column: int
    dp_column: int
    ds_column: int
    dk_column: int
    dq_column: int
    tensor_columns: int
    longest_first: bool
    l2_bytes: int
    deterministic: bool
    last_first: bool
    parts: int
    programs: dict[str, tuple[Step, ...]]

    @property
    def half(self) -> int:
        """Queries of a tile that one of the two compute warpgroups works on."""
        return self.tile_q // 2

    @property
    def row_tiles_bytes(self) -> int:
        """Shared memory of the pass before, see `row_products`: out, dout, and its barriers and words."""
        return -(-self.head_dim_v // self.box_columns) * (LANES + self.tile_q) * self.row_bytes + WORD_BYTES
