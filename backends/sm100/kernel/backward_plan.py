"""The numbers of one backward kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.backward_plan import LANES, BackwardWidths
from attnspec.backends.cute.kernel.plan import Step

WORD_BYTES = 32  # of the two barriers and two words of `row_products`
K_STEP = 16  # elements of the summed dimension that a tensor instruction takes
RUN = 32  # queries beside each other that a thread of a pair has


@dataclass(frozen=True)
class BackwardPlan(BackwardWidths):
    """Numbers of a backward kernel.

    Offsets in shared memory are bytes from the start of dynamic shared memory, in tensor memory 32-bit columns; `*_stride` is
    the distance between slots of a ring. planes: numbers a query row brings (f32 each). chunk: columns of dQ moved at a time, as
    they lie in tensor memory; dq_pieces: pieces in which a row of it is read. parts: times that a work tile is done, each for
    128 columns of dK, dV and dQ (`BackwardShape`); dQ is transposed then, lanes are its columns.
    programs: role kind -> its steps. query_tiles is 1: pipes have no copies.
    ctas: of a pair 2. Of q and dO each then has half of the rows, and half of the columns of all rows (`q_columns`,
    `do_columns`); of k its own rows, and half of the columns of the rows of both (`k_columns`).
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
    scatters: bool
    l2_bytes: int
    deterministic: bool
    last_first: bool
    parts: int
    programs: dict[str, tuple[Step, ...]]
    grows: bool = False
    ctas: int = 1
    k_columns_offset: int = 0
    q_columns_offset: int = 0
    q_columns_stride: int = 0
    q_columns_depth: int = 0
    do_columns_offset: int = 0
    do_columns_stride: int = 0
    do_columns_depth: int = 0

    @property
    def half(self) -> int:
        """Queries of a tile that one of the two compute warpgroups works on."""
        return self.tile_q // 2

    @property
    def q_rows(self) -> int:
        """Rows of a tile of q or dO that this CTA has for S and dP."""
        return self.tile_q // self.ctas

    def first_query(self, warpgroup: Any) -> Any:
        """The first query of a tile that a compute warpgroup works on."""
        return warpgroup * (self.half if self.ctas == 1 else RUN)

    def query(self, number: Any) -> Any:
        """Where a warpgroup's query of that number is, from its first. In a pair it has as many queries of each CTA's dQ."""
        return number if self.ctas == 1 else number + number // RUN * RUN

    @property
    def operand_columns(self) -> tuple[int, ...]:
        """Columns of P and of dS, from their first, where each 16 queries are: those of a warpgroup lie in columns of its own."""
        return tuple(self._operand_column(first) for first in range(0, self.tile_q, K_STEP))

    def _operand_column(self, query: int) -> int:
        if self.ctas == 1:
            return query // self.half * self.half + query % self.half // 2
        run, place = query // RUN, query % RUN
        return run % 2 * RUN + (run // 2 * RUN + place) // 2

    def tile_of_columns(self, name: str) -> tuple[str, int, int]:
        """Of q or dO, what the products of dK and dV take: name of the buffer, where it begins, bytes from a slot to the next."""
        name = name if self.ctas == 1 else f"{name}_columns"
        return name, getattr(self, f"{name}_offset"), getattr(self, f"{name}_stride")

    @property
    def dq_keys_offset(self) -> int:
        """Where the keys are that the product of dQ takes."""
        return self.k_offset if self.ctas == 1 else self.k_columns_offset

    @property
    def row_tiles_bytes(self) -> int:
        """Shared memory of the pass before, see `row_products`: out, dout, and its barriers and words."""
        return -(-self.head_dim_v // self.box_columns) * (LANES + self.tile_q) * self.row_bytes + WORD_BYTES
