"""The numbers of one backward kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.backward_plan import PART, BackwardWidths
from attnspec.backends.cute.kernel.plan import Step
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS


@dataclass(frozen=True)
class BackwardPlan(BackwardWidths):
    """Numbers of a backward kernel, those of `BackwardWidths` among them.

    dq_queries: of which a warpgroup makes 64 columns of dQ; splits_queries: each those of its half, else of all. dq_chunks: in
    which dQ of a step is staged; of two, each is one warpgroup's. lse_ahead, delta_ahead: pairs of numbers of rows
    that are read ahead. working_threads: those of all roles. strips_*: see `blocks/strips.py`; of stride 0 where there are none.
    """

    element: Any
    tile_q: int
    tile_kv: int
    query_tiles: int
    head_dim: int
    head_dim_v: int
    threads: int
    working_threads: int
    barriers: int
    planes: int
    chunk: int
    dq_chunks: int
    parts: int
    deterministic: bool
    last_first: bool
    dq_queries: int
    splits_queries: bool
    lse_ahead: int
    delta_ahead: int
    k_offset: int
    v_offset: int
    q_offset: int
    q_stride: int
    q_depth: int
    do_offset: int
    do_stride: int
    do_depth: int
    ds_offset: int
    ds_stride: int
    ds_slots: int
    dq_offset: int
    dq_stride: int
    strips_offset: int
    strips_stride: int
    strips_queries: int
    rows_offset: int
    rows_stride: int
    barriers_offset: int
    starts_offset: int
    shared_bytes: int
    longest_first: bool
    scatters: bool
    l2_bytes: int
    programs: dict[str, tuple[Step, ...]]
    grows: bool = False

    @property
    def convert_threads(self) -> int:
        """Of a CTA of the pass after: a warpgroup, whose warps take eight queries at a time."""
        return GROUP_THREADS

    @property
    def dq_columns(self) -> int:
        """Of what is added to the sum, in columns of a chunk."""
        return self.chunk * self.dq_chunks

    @property
    def sum_width(self) -> int:
        """Numbers of a row of the sum of dQ, in each part."""
        return self.dk_width

    def boxes(self, head_dim: int) -> int:
        """TMA boxes of a tile of that head dimension: those that hold something."""
        return -(-head_dim // self.box_columns)

    def part_step(self, head_dim: int) -> int:
        """Columns from the first of a part to that of the next: the last part ends where the last box does."""
        return max(self.boxes(head_dim) * self.box_columns - PART, 0)

    def step_bytes(self, rows: int, head_dim: int) -> int:
        """The same in bytes of a tile of so many rows."""
        return self.part_step(head_dim) // self.box_columns * rows * self.row_bytes

    @property
    def row_tiles_bytes(self) -> int:
        """Shared memory of the pass before, see `row_products`: out, dout, a number a row, a barrier."""
        return self.boxes(self.head_dim_v) * (self.tile_kv + self.tile_q) * self.row_bytes + self.tile_kv * 4 + 16

    @property
    def score_count(self) -> int:
        """Scores of a step that a thread holds: of two keys, two queries in eight."""
        return self.tile_q // 2
