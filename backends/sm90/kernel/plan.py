"""The numbers of one kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.plan import Step, Widths

GROUP_THREADS = 128


@dataclass(frozen=True)
class Ring:
    """Slots in shared memory. offset: of the first; stride: from one to the next, in bytes."""

    offset: int
    stride: int


@dataclass(frozen=True)
class Plan(Widths):
    """Numbers of a forward kernel.

    Offsets in shared memory are bytes from the start of dynamic shared memory; `*_stride` is the distance between slots of a
    ring. Keys and values share one ring (kv), or have one each (k, v). warpgroups: that share a query tile, 64 rows each.
    takes_turns: at the tensor core. programs: role kind -> its steps. board_places: posted for a tile, see `board`.
    """

    element: Any
    tile_q: int
    tile_kv: int
    query_tiles: int
    head_dim: int
    head_dim_v: int
    threads: int
    working_threads: int
    warpgroups: int
    takes_turns: bool
    barriers: int
    q_offset: int
    q_stride: int
    o_offset: int
    o_stride: int
    o_depth: int
    staged_offset: int
    staged_stride: int
    barriers_offset: int
    starts_offset: int
    shared_bytes: int
    rescale_threshold: float
    emulated_share: float
    exponential_degree: int
    longest_first: bool
    scatters: bool
    l2_bytes: int
    programs: dict[str, tuple[Step, ...]]
    board_offset: int = 0
    board_places: int = 0
    kv_offset: int = 0
    kv_stride: int = 0
    kv_depth: int = 0
    k_offset: int = 0
    k_stride: int = 0
    k_depth: int = 0
    v_offset: int = 0
    v_stride: int = 0
    v_depth: int = 0

    @property
    def keys(self) -> Ring:
        """Where keys are."""
        own = Ring(self.k_offset, self.k_stride)
        return own if self.k_depth else Ring(self.kv_offset, self.kv_stride)

    @property
    def values(self) -> Ring:
        """Where values are."""
        own = Ring(self.v_offset, self.v_stride)
        return own if self.v_depth else Ring(self.kv_offset, self.kv_stride)

    @property
    def key_box_bytes(self) -> int:
        """Bytes of a TMA box of a key or value tile."""
        return self.tile_kv * self.row_bytes

    @property
    def score_count(self) -> int:
        """Scores of a tile that a thread holds: of two rows, two keys in eight."""
        return self.tile_kv // 2

    @property
    def output_count(self) -> int:
        """Elements of O that a thread holds."""
        return self.width_v // 2
