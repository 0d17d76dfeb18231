"""wgmma with 16-bit operands and an f32 accumulator: descriptors and issue (PTX ISA, wgmma matrix descriptors).

Shared operands lie in blocks of 64 elements of the head dimension: [block][row][64], rows of 128 bytes with the 128-byte
swizzle, as TMA writes them. q and k are K-major (the head dimension is summed over), v is MN-major (keys are).

A thread of a warpgroup holds of a product of 64 rows those with numbers lane / 4 and lane / 4 + 8 of its warp's sixteen, and of
every eight columns 2 * (lane % 4) and the next: element i is of row i / 2 % 2 and column 8 * (i / 4) + i % 2.
"""

from collections.abc import Sequence
from typing import Any

from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Float32, Int32
from cutlass._mlir import ir
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import dsl_user_op

K_STEP = 16  # elements of the summed dimension an instruction takes
BLOCK = 64  # elements in a 128-byte swizzled row
ROW_BYTES = 128
SWIZZLE_128B = 1 << 30  # bits 62 and 63 of the descriptor
GROUPS = 8 * ROW_BYTES >> 4  # groups of 8 rows are 1024 bytes apart, in 16-byte units
A_REGISTERS = 4  # 32-bit registers of A, an instruction


def descriptor_start(address: Any) -> Int32:
    """Lower half of a shared matrix descriptor: the start address in 16-byte units (bits 0 to 13)."""
    return (Int32(address) & 0x3FFFF) >> 4


def k_major_offset(step: int, rows: int) -> int:
    """16-byte units from the operand's start to its `step`-th 16 elements of the summed dimension."""
    per_block = BLOCK // K_STEP
    return (step // per_block * rows * ROW_BYTES + step % per_block * K_STEP * 2) >> 4


def element_name(is_bf16: bool) -> str:
    """The type as instructions spell it."""
    return "bf16" if is_bf16 else "f16"


def query_key(q: Any, k: Any, width: int, rows: tuple[int, int], is_bf16: bool) -> list[Float32]:
    """S = Q K^T of 64 rows, begun: the values are there after `wait`.

    q, k: starts, in 16-byte units, of the warpgroup's first row in the q tile and of the k tile; rows: of those tiles; width: the
    head dimension, padded to 16.
    """
    kind = element_name(is_bf16)
    lines, count = [], rows[1] // 2
    for step in range(width // K_STEP):
        a, b = (k_major_offset(step, one) for one in rows)
        lines += descriptor_lines("a", f"${count}", a) + descriptor_lines("b", f"${count + 1}", b)
        adds = "0" if step == 0 else "1"
        shape = f"m64n{rows[1]}k16.f32.{kind}.{kind}"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{operands(0, count)}}}, a, b, p{adds}, 1, 1, 0, 0;")
    return begin(lines, count, [Int32(q), Int32(k)], ())


def probability_value(o: Sequence[Float32], p: Sequence[Int32], v: Any, rows: int, is_bf16: bool) -> list[Float32]:
    """O + P V of 64 rows, begun.

    o: this thread's values; p: its probabilities, two to a word; v: start, in 16-byte units, of a tile of `rows` keys.
    """
    kind, count = element_name(is_bf16), len(o)
    first = 2 * count  # operands: results, the same again as inputs, then those of P, then V
    v_operand = f"${first + len(p)}"
    lines = []
    for step in range(rows // K_STEP):
        lines += descriptor_lines("b", v_operand, step * K_STEP * ROW_BYTES >> 4, rows * ROW_BYTES)
        a = operands(first + step * A_REGISTERS, A_REGISTERS)
        shape = f"m64n{2 * count}k16.f32.{kind}.{kind}"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{operands(0, count)}}}, {{{a}}}, b, p1, 1, 1, 1;")
    return begin(lines, count, [*p, Int32(v)], o)


def wait(later: int) -> None:
    """Until all products are done but the last `later` that were begun."""
    ptx(f"wgmma.wait_group.sync.aligned {later};")


def operands(first: int, count: int) -> str:
    """Operands of the block by number."""
    return ", ".join(f"${at}" for at in range(first, first + count))


def descriptor_lines(name: str, start: str, offset: int, leading_bytes: int = 0) -> list[str]:
    """Lines that make a descriptor. leading_bytes: distance between blocks of 64 columns (MN-major only)."""
    fixed = (leading_bytes >> 4 << 16) + offset
    return [f"add.s32 low, {start}, {fixed};", f"mov.b64 {name}, {{low, {SWIZZLE_128B | GROUPS}}};"]


@dsl_user_op
def begin(
    lines: Sequence[str], count: int, others: Sequence[Any], before: Sequence[Float32], *, loc: Any = None
) -> list[Float32]:
    """One block of instructions on `count` accumulators, which are also read if `before` has their values."""
    text = "\n\t".join(
        [
            "{",
            ".reg .pred p0, p1;",
            ".reg .b32 low;",
            ".reg .b64 a, b;",
            "setp.ne.b32 p0, 0, 0;",
            "setp.eq.b32 p1, 0, 0;",
            "wgmma.fence.sync.aligned;",
            *lines,
            "wgmma.commit_group.sync.aligned;",
            "}",
        ]
    )
    outputs = ["=f" if before else "=&f"] * count
    inputs = [str(at) for at in range(len(before))] + ["r"] * len(others)
    given = [value.ir_value(loc=loc) for value in (*before, *others)]
    result = llvm.StructType.get_literal([Float32.mlir_type] * count)
    found = llvm.inline_asm(
        result,
        given,
        text,
        ",".join([*outputs, *inputs]),
        has_side_effects=True,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
        loc=loc,
    )
    f32 = Float32.mlir_type
    at = (ir.DenseI64ArrayAttr.get([index]) for index in range(count))
    return [Float32(llvm.extractvalue(f32, found, one, loc=loc), loc=loc) for one in at]
