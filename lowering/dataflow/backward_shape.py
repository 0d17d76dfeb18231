"""Tiles of a backward kernel, which tensor memory decides.

S, dP, dV and dK lie in it together. Up to 128 columns of each head dimension they fit for 128 queries a step. Beyond, a work tile
is done once for each 128 columns: it makes P and dS anew from whole head dimensions, and of dV, dK and dQ only those columns, for
64 queries a step, since whole tiles of q, k, v and dO take most of shared memory. (FA4 splits heads of 256 into two kernels, with
as many products.)
"""

from dataclasses import dataclass

from attnspec.lowering.dataflow.forward import SWIZZLE_ELEMENTS, TILE_KV, TILE_Q, padded

from attnspec.language.spec import Spec

PART = 128  # columns of a head dimension at a time, lanes of tensor memory
UNIT = 16  # columns of a product are multiples of it, in each CTA
CHUNK = 32  # columns of dQ that go to global memory at a time, f32
FEW_QUERIES = 64  # of a step of wide heads
QUERY_CHUNK = 16  # of those, that go to global memory at a time


@dataclass(frozen=True)
class BackwardShape:
    """tile_q: queries of a step. parts: times that a work tile is done.
    width, width_v: columns of dK and dV at a time. sum_width: numbers of a row of dQ's sum, in each part.

    dq_columns: tensor memory columns of dQ of a step, those of the head dimension; or its queries, where parts are done in turn,
    for then dQ is made transposed; or half of them, where a pair of CTAs makes dQ of half of the queries each, and a lane is a
    query and half of the columns (PTX ISA, tcgen05 data path layout B). chunk: how many go to global memory at a time.
    """

    tile_q: int
    parts: int
    width: int
    width_v: int
    dq_columns: int
    sum_width: int
    chunk: int

    @property
    def tile_kv(self) -> int:
        """Keys of a work tile."""
        return TILE_KV

    @property
    def chunks(self) -> range:
        """Numbers of the chunks of dQ."""
        return range(self.dq_columns // self.chunk)

    def columns(self, head_dim: int) -> int:
        """Columns of a tile of that head dimension in shared memory: whole boxes, and where there are parts, whole parts."""
        return padded(head_dim, SWIZZLE_ELEMENTS if self.parts == 1 else PART)


def backward_shape(spec: Spec, ctas: int = 1) -> BackwardShape:
    """The tiles of a variant's backward, of each of so many CTAs that share a work tile."""
    return shape_of(spec.head_dim, spec.head_dim_v, ctas)


def shape_of(head_dim: int, head_dim_v: int, ctas: int = 1) -> BackwardShape:
    """The tiles for head dimensions."""
    width, width_v = padded(head_dim, UNIT * ctas), padded(head_dim_v, UNIT * ctas)
    if ctas > 1:
        columns = width // ctas
        return BackwardShape(TILE_Q, 1, width, width_v, columns, width, CHUNK if columns % CHUNK == 0 else CHUNK // 2)
    parts = -(-max(width, width_v) // PART)
    if parts > 1:
        return BackwardShape(FEW_QUERIES, parts, min(width, PART), min(width_v, PART), FEW_QUERIES, PART, QUERY_CHUNK)
    return BackwardShape(TILE_Q, 1, width, width_v, width, width, CHUNK if width % CHUNK == 0 else CHUNK // 2)
