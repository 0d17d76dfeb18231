"""The numbers of one backward kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

import cutlass
from attnspec.backends.sm100.kernel.plan import Step


@dataclass(frozen=True)
class BackwardPlan:
    """Numbers of a backward kernel.

    Offsets in shared memory are bytes from the start of dynamic shared memory, in tensor memory 32-bit columns; `*_stride` is
    the distance between slots of a ring. planes: numbers a query row brings (f32 each). chunk: columns of dQ moved at a time;
    dq_pieces: pieces in which a row of it is read. programs: role kind -> its steps. query_tiles is 1: pipes have no copies.
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
    programs: dict[str, tuple[Step, ...]]

    @property
    def is_bf16(self) -> bool:
        """Whether the 16-bit type is bfloat16."""
        return self.element is cutlass.BFloat16

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a TMA box."""
        return 128

    @property
    def box_columns(self) -> int:
        """Elements of a row of a TMA box."""
        return self.row_bytes // 2

    @property
    def box_bytes(self) -> int:
        """Bytes of a TMA box; query and key tiles have as many rows."""
        return self.tile_q * self.row_bytes

    @property
    def half(self) -> int:
        """Queries of a tile that one of the two compute warpgroups works on."""
        return self.tile_q // 2

    @property
    def width_qk(self) -> int:
        """Head dimension of q and k, padded to the tensor core's K step of 16 elements."""
        return -(-self.head_dim // 16) * 16

    @property
    def width_v(self) -> int:
        """Head dimension of v, padded to 16 elements."""
        return -(-self.head_dim_v // 16) * 16

    @property
    def rows_bytes(self) -> int:
        """Bytes of what a query tile's rows bring."""
        return self.planes * self.tile_q * 4
