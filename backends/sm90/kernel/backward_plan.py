"""The numbers of one backward kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.backward_plan import BackwardWidths
from attnspec.backends.cute.kernel.plan import Step


@dataclass(frozen=True)
class BackwardPlan(BackwardWidths):
    """Numbers of a backward kernel, those of `BackwardWidths` among them.

    share: columns of dQ that a warpgroup makes; splits_queries: of its half of the queries, else of all.
    working_threads: those of all roles.
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
    parts: int
    deterministic: bool
    last_first: bool
    share: int
    splits_queries: bool
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
    dq_offset: int
    dq_stride: int
    rows_offset: int
    rows_stride: int
    barriers_offset: int
    starts_offset: int
    shared_bytes: int
    longest_first: bool
    l2_bytes: int
    programs: dict[str, tuple[Step, ...]]

    @property
    def dq_columns(self) -> int:
        """dQ of a step is added to the sum at once."""
        return self.chunk

    @property
    def score_count(self) -> int:
        """Scores of a step that a thread holds: of two keys, two queries in eight."""
        return self.tile_q // 2
