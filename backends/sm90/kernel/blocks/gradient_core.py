"""The product of the backward that has no like in the forward: dQ = dS K, both from shared memory."""

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


def query_gradient(ds: Any, k: Any, keys: int, rows: int, columns: int, is_bf16: bool) -> list[Float32]:
    """dQ of 64 queries, begun: the values are there after `wait`.

    ds: start, in 16-byte units, of the warpgroup's first row of dS, [block of 64 keys][query][64 keys], of which there are
    `rows`; k: of the columns of K that it takes, [block of 64 columns][key][64 columns], of which there are `keys`.
    """
    kind, count = element_name(is_bf16), columns // 2
    lines = []
    for step in range(keys // K_STEP):
        lines += descriptor_lines("a", f"${count}", k_major_offset(step, rows))
        lines += descriptor_lines("b", f"${count + 1}", step * K_STEP * ROW_BYTES >> 4, keys * ROW_BYTES)
        adds = "0" if step == 0 else "1"
        shape = f"m64n{columns}k16.f32.{kind}.{kind}"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{operands(0, count)}}}, a, b, p{adds}, 1, 1, 0, 1;")
    return begin(lines, count, [Int32(ds), Int32(k)], ())
