"""The numbers of one backward kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.plan import Step, Widths

PART = 128  # columns of a part
LANES = 128  # of tensor memory
BOXES = 2  # that hold them


@dataclass(frozen=True)
class BackwardPlan(Widths):
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
    def rows_bytes(self) -> int:
        """Bytes of what a query tile's rows bring."""
        return self.planes * self.tile_q * 4

    @property
    def parts_qk(self) -> int:
        """Parts that have columns of dK and dQ; where dV has more, they make those of the last once more, for nobody."""
        return -(-self.head_dim // PART) if self.parts > 1 else 1

    @property
    def parts_v(self) -> int:
        """Parts that have columns of dV."""
        return -(-self.head_dim_v // PART) if self.parts > 1 else 1

    @property
    def dk_width(self) -> int:
        """Columns of dK made at a time."""
        return self.width_qk if self.parts == 1 else min(self.width_qk, PART)

    @property
    def dv_width(self) -> int:
        """Columns of dV made at a time."""
        return self.width_v if self.parts == 1 else min(self.width_v, PART)

    @property
    def dq_columns(self) -> int:
        """Columns of tensor memory that dQ takes."""
        return self.width_qk if self.parts == 1 else self.tile_q

    @property
    def sum_width(self) -> int:
        """Numbers of a row of the sum of dQ, in each part."""
        return self.width_qk if self.parts == 1 else PART

    def boxes(self, head_dim: int) -> int:
        """TMA boxes of a tile of that head dimension: in shared memory whole parts, if there are parts."""
        boxes = -(-head_dim // self.box_columns)
        return boxes if self.parts == 1 else -(-boxes // BOXES) * BOXES

    def part_bytes(self, rows: int) -> int:
        """From one part of a tile of so many rows to the next."""
        return BOXES * rows * self.row_bytes
