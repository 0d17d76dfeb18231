"""The product of the backward that has no like in the forward: dQ^T = K^T dS^T, both from shared memory.

Transposed, a step may have any number of queries that is a multiple of 16: 64 rows of a product are columns of K.
"""

from typing import Any

from attnspec.backends.sm90.kernel.blocks.tensor_core import (
    K_STEP,
    ROW_BYTES,
    begin,
    descriptor_lines,
    element_name,
    k_major_offset,
    operands,
)
from cutlass import Float32, Int32


def query_gradient(k: Any, ds: Any, keys: int, rows: int, queries: int, is_bf16: bool) -> list[Float32]:
    """64 columns of dQ of so many queries, transposed, begun: the values are there after `wait`.

    k: start, in 16-byte units, of a block of columns of K, [key][64 columns], of which there are `keys`; ds: of the warpgroup's
    first row of dS, [block of 64 keys][query][64 keys], of which there are `rows`.
    """
    kind, count = element_name(is_bf16), queries // 2
    lines = []
    for step in range(keys // K_STEP):
        lines += descriptor_lines("a", f"${count}", step * K_STEP * ROW_BYTES >> 4, keys * ROW_BYTES)
        lines += descriptor_lines("b", f"${count + 1}", k_major_offset(step, rows))
        adds = "0" if step == 0 else "1"
        shape = f"m64n{queries}k16.f32.{kind}.{kind}"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{operands(0, count)}}}, a, b, p{adds}, 1, 1, 1, 0;")
    return begin(lines, count, [Int32(k), Int32(ds)], ())
