"""The numbers of one kernel, as the schedule decided them; all are known when the kernel is compiled."""

from dataclasses import dataclass
from typing import Any

from attnspec.backends.cute.kernel.plan import Step, Widths


@dataclass(frozen=True)
class Ring:
    """Slots in shared memory, of all lanes. offset: of the first, from the start of dynamic shared memory; stride: bytes from one
    to the next; depth: how many."""

    offset: int
    stride: int
    depth: int


@dataclass(frozen=True)
class TensorTile:
    """A tensor's tile for a query tile and the keys of a step. element: its type; offset: of the first slot, from the start of
    dynamic shared memory; size: bytes of a slot; stride: from a lane's to the next one's, 0 where all use one in turn."""

    element: Any
    offset: int
    size: int
    stride: int


@dataclass(frozen=True)
class Plan(Widths):
    """Numbers of a forward kernel.

    Offsets in shared memory are bytes from the start of dynamic shared memory, in tensor memory 32-bit columns; `*_stride` is
    the distance between copies (query tiles, or slots of a ring). programs: role kind -> its steps.
    values: the ring of values, where keys have kv_* to themselves; None where both share it. maxima_offset: where the key tiles
    of a step hand on the row maximum, a number for each row and key tile. tensor_tiles: of the tensors of which TMA brings tiles.
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
    q_offset: int
    q_stride: int
    kv_offset: int
    kv_stride: int
    kv_depth: int
    o_offset: int
    o_stride: int
    o_depth: int
    stats_offset: int
    staged_offset: int
    staged_stride: int
    barriers_offset: int
    starts_offset: int
    shared_bytes: int
    s_column: int
    s_stride: int
    p_column: int
    p_stride: int
    o_column: int
    o_column_stride: int
    tensor_columns: int
    probability_split: int
    rescale_threshold: float
    emulated_share: float
    exponential_degree: int
    longest_first: bool
    scatters: bool
    l2_bytes: int
    programs: dict[str, tuple[Step, ...]]
    ctas: int = 1
    key_tiles: int = 1
    values: Ring | None = None
    maxima_offset: int = 0
    tensor_tiles: tuple[TensorTile, ...] = ()

    @property
    def value_ring(self) -> Ring:
        """Where values are."""
        return Ring(self.kv_offset, self.kv_stride, self.kv_depth) if self.values is None else self.values

    @property
    def key_rows(self) -> int:
        """Keys of a tile that this CTA holds, for all CTAs that work on the tile."""
        return self.tile_kv // self.ctas

    @property
    def key_box_bytes(self) -> int:
        """Bytes of a TMA box of a key tile."""
        return self.key_rows * self.row_bytes

    @property
    def value_columns(self) -> int:
        """Columns of a tile of values that this CTA holds."""
        return self.width_v // self.ctas

    @property
    def value_box_bytes(self) -> int:
        """Bytes of a TMA box of a value tile."""
        return self.tile_kv * self.row_bytes

    @property
    def value_boxes(self) -> int:
        """Boxes of a value tile."""
        return -(-self.value_columns // self.box_columns)
