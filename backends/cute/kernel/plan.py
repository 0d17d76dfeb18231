"""What the plans of all kernels have in common: the steps of a program, and widths."""

from dataclasses import dataclass
from typing import Any

import cutlass


@dataclass(frozen=True)
class Step:
    """An operation of a role's program. lane: the query tile it works on, or the key tile of its step; stage: steps it lags
    behind the role's first."""

    operation: str
    lane: int | None
    stage: int


class Widths:
    """What follows from a plan's element type, head dimensions and tile, in either direction.

    grows: work tiles of the backward see more the longer sequences are (`rounds`). last_first: they begin with the last keys.
    parts: times that it does each.
    """

    element: Any
    tile_q: int
    tile_kv: int
    query_tiles: int
    head_dim: int
    head_dim_v: int
    longest_first: bool
    scatters: bool
    l2_bytes: int
    last_first: bool
    parts: int
    working_threads: int
    programs: dict[str, tuple[Step, ...]]
    grows: bool = False
    ctas: int = 1  # that work on one tile together
    key_tiles: int = 1  # of a step: where there are two, lanes are key tiles of one query tile
    tensor_tiles: tuple[Any, ...] = ()  # where tiles of tensors are

    @property
    def lanes(self) -> int:
        """Tiles of scores in flight: query tiles, or key tiles of one."""
        return self.query_tiles * self.key_tiles

    @property
    def work_rows(self) -> int:
        """Rows of a work tile."""
        return self.tile_q * self.query_tiles * self.ctas

    @property
    def work_keys(self) -> int:
        """Keys of a work tile of the backward."""
        return self.tile_kv * self.ctas

    @property
    def is_bf16(self) -> bool:
        """Whether the 16-bit type is bfloat16."""
        return self.element is cutlass.BFloat16

    @property
    def box_columns(self) -> int:
        """Elements of a row of a TMA box, 128 bytes."""
        return self.row_bytes // 2

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a TMA box."""
        return 128

    @property
    def box_bytes(self) -> int:
        """Bytes of a TMA box of a tile of queries."""
        return self.tile_q * self.row_bytes

    @property
    def width_qk(self) -> int:
        """Head dimension of q and k, padded to the tensor core's K step of 16 elements."""
        return -(-self.head_dim // 16) * 16

    @property
    def width_v(self) -> int:
        """Head dimension of v, padded to 16 elements for each CTA (N of a tensor operation with 128 rows of each)."""
        return -(-self.head_dim_v // (16 * self.ctas)) * 16 * self.ctas
