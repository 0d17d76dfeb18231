"""What the plans of all backward kernels have in common."""

from attnspec.backends.cute.kernel.plan import Widths

UNIT = 16  # columns of a product are multiples of it
PART = 128  # columns of a part
LANES = 128  # rows of what is added to the sum of dQ at a time
BOXES = 2  # that hold a part


class BackwardWidths(Widths):
    """What the shared roles and passes read of a plan, and what follows from it.

    Offsets in shared memory are bytes from the start of dynamic shared memory; `*_stride` is the distance between slots of a
    ring. planes: numbers a query row brings (f32 each). chunk: columns of dQ moved at a time, 128 numbers each. parts: times that
    a work tile is done, each for 128 columns of dK, dV and dQ.
    deterministic: sums over key tiles have one order, sums of learned tensors are exact. last_first: see `Widths`.
    """

    planes: int
    chunk: int
    parts: int
    deterministic: bool
    k_offset: int
    v_offset: int
    q_offset: int
    q_stride: int
    do_offset: int
    do_stride: int
    dq_offset: int
    dq_stride: int
    rows_offset: int
    rows_stride: int

    @property
    def rows_bytes(self) -> int:
        """Bytes of what a query tile's rows bring."""
        return self.planes * self.tile_q * 4

    @property
    def convert_threads(self) -> int:
        """Of a CTA of the pass after the backward: one a query."""
        return self.tile_q

    @property
    def shares(self) -> int:
        """Places of a query tile's sum of dQ that are added to each by itself: parts, or halves of the queries."""
        return self.parts * self.ctas

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
        """Columns of dK made at a time, the same number by each CTA."""
        if self.ctas > 1:
            return -(-self.head_dim // (UNIT * self.ctas)) * UNIT * self.ctas
        return self.width_qk if self.parts == 1 else min(self.width_qk, PART)

    @property
    def dv_width(self) -> int:
        """Columns of dV made at a time."""
        return self.width_v if self.parts == 1 else min(self.width_v, PART)

    @property
    def dq_columns(self) -> int:
        """Columns of tensor memory that dQ takes; in a pair half of them, for lanes are half of the queries, twice."""
        return self.dk_width // self.ctas if self.parts == 1 else self.tile_q

    @property
    def is_turned(self) -> bool:
        """Whether a part of the sum of dQ lies as [row][column]; else it does as a whole sum, [column / 4][row][column % 4]."""
        return self.parts > 1

    @property
    def sum_width(self) -> int:
        """Numbers of a row of the sum of dQ, in each part."""
        return self.dk_width if self.parts == 1 else PART

    def boxes(self, head_dim: int) -> int:
        """TMA boxes of a tile of that head dimension: in shared memory whole parts, if there are parts."""
        boxes = -(-head_dim // self.box_columns)
        return boxes if self.parts == 1 else -(-boxes // BOXES) * BOXES

    def part_step(self, head_dim: int) -> int:
        """Columns from the first of a part to that of the next."""
        return PART

    def part_bytes(self, rows: int) -> int:
        """From one part of a tile of so many rows to the next."""
        return BOXES * rows * self.row_bytes
