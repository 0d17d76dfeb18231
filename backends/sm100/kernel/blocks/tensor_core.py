"""tcgen05.mma, 16-bit operands, f32 accumulator, one CTA or two: descriptors and issue (PTX ISA, tcgen05 matrix descriptors).

Shared operands lie in blocks of 64 elements of the head dimension: [block][row][64], rows of 128 bytes with the 128-byte
swizzle, as TMA writes them. q and k are K-major (the head dimension is summed over), v is MN-major (keys are).

A pair of CTAs multiplies 256 rows, 128 of each, by one B, of which each CTA holds half of the columns of the product, at the same
addresses; A and the product of a CTA's rows are its own (PTX ISA, cta_group::2).
"""

from collections.abc import Sequence
from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Boolean, Int32

K_STEP = 16  # elements of the summed dimension an instruction takes
BLOCK = 64  # elements in a 128-byte swizzled row
ROW_BYTES = 128
SWIZZLE_128B = 2 << 29  # bits 61 to 63 of the descriptor
VERSION = 1 << 14  # bits 46 to 48


def instruction(is_bf16: bool, m: int, n: int, b_is_mn_major: bool, a_is_mn_major: bool = False) -> int:
    """Instruction descriptor of kind::f16 with f32 accumulator."""
    operand = 1 if is_bf16 else 0
    majors = int(a_is_mn_major) << 15 | int(b_is_mn_major) << 16
    return 1 << 4 | operand << 7 | operand << 10 | majors | (n // 8) << 17 | (m // 16) << 24


def descriptor_start(address: Any) -> Int32:
    """Lower half of a shared matrix descriptor: the start address in 16-byte units (bits 0 to 13)."""
    return (Int32(address) & 0x3FFFF) >> 4


def starts(pointer: Any) -> tuple[Int32, Int32]:
    """Start of tensor memory (address) and of shared memory (as `descriptor_start`), from the two words at `pointer`.

    A volatile load, so that addresses are made anew for every product: hoisted out of the loop, the descriptors of all steps
    need more registers than the role has, and spill.
    """
    return ptx("ld.volatile.shared.v2.b32 {{$w0}, {$w1}}, [{$r0}];", pointer, returns=[Int32, Int32])


def upper_half(leading_bytes: int) -> tuple[int, int]:
    """Fixed bits of a descriptor's two halves: 128-byte swizzle, groups of 8 rows 1024 bytes apart.

    leading_bytes: distance between 64-element blocks (MN-major only; ignored where K-major).
    """
    return (leading_bytes >> 4) << 16, SWIZZLE_128B | VERSION | (8 * ROW_BYTES >> 4)


def k_major_offset(step: int, rows: int) -> int:
    """Bytes from the operand's start to its `step`-th 16 elements of the summed dimension."""
    per_block = BLOCK // K_STEP
    return step // per_block * rows * ROW_BYTES + step % per_block * K_STEP * 2


def _issue(
    d: Any, a: Any, b: Any, code: int, steps: list[tuple[int, int]], halves: list[int], accumulate: Any, ctas: int = 1
) -> None:
    """One product: an instruction for each (offset of A, offset of B); one elected thread issues them all.

    A lies in tensor memory (address, offsets in columns; halves holds B's upper half alone) or in shared memory (lower half of
    its descriptor, offsets in 16-byte units; halves holds A's and B's upper halves).
    """
    lines = [".reg .pred add;\n\t.reg .b32 al, bl;\n\t.reg .b64 a, b;", "setp.ne.b32 add, {$r4}, 0;"]
    for index, (a_offset, b_offset) in enumerate(steps):
        lines.append(f"add.s32 al, {{$r1}}, {a_offset};\n\tadd.s32 bl, {{$r2}}, {b_offset};")
        if len(halves) == 2:
            lines.append(f"mov.b64 a, {{al, {halves[0]}}};")
        lines.append(f"mov.b64 b, {{bl, {halves[-1]}}};")
        operand, flag = "a" if len(halves) == 2 else "[al]", "add" if index == 0 else "1"
        lines.append(f"tcgen05.mma.cta_group::{ctas}.kind::f16 [{{$r0}}], {operand}, b, {{$r3}}, {flag};")
    with cute.arch.elect_one():
        ptx("{\n\t" + "\n\t".join(lines) + "\n\t}", d, a, b, Int32(code), accumulate)


def query_key(d: Any, q: Any, k: Any, width: int, rows: tuple[int, int], code: int, ctas: int = 1) -> None:
    """S = Q K^T. q, k: starts of the tiles, in 16-byte units; rows: of this CTA's; width: head dimension, padded to 16."""
    steps = [(k_major_offset(step, rows[0]) >> 4, k_major_offset(step, rows[1]) >> 4) for step in range(width // K_STEP)]
    fixed, upper = upper_half(0)
    _issue(d, q | fixed, k | fixed, code, steps, [upper, upper], Int32(0), ctas)


def probability_value(
    d: Any, p: Any, v: Any, steps: tuple[int, int], rows: int, code: int, accumulate: bool | Boolean, ctas: int = 1
) -> None:
    """O (+)= P V over the K steps [first, last). p: tensor address; v: start, in 16-byte units, of a tile of `rows` keys."""
    offsets = [(step * (K_STEP // 2), step * K_STEP * ROW_BYTES >> 4) for step in range(*steps)]
    flag = Int32(int(accumulate)) if isinstance(accumulate, bool) else Int32(accumulate)
    fixed, upper = upper_half(rows * ROW_BYTES)
    _issue(d, p, v | fixed, code, offsets, [upper], flag, ctas)


def scattered_product(
    d: Any, a: Any, b: Any, columns: Sequence[int], code: int, accumulate: bool | Boolean, ctas: int = 1
) -> None:
    """D (+)= A B. a: tensor address of 16-bit values, columns: of each 16 of them, from there; b: start, in 16-byte units, of a
    tile of as many rows as there are values.
    """
    offsets = [(column, step * K_STEP * ROW_BYTES >> 4) for step, column in enumerate(columns)]
    flag = Int32(int(accumulate)) if isinstance(accumulate, bool) else Int32(accumulate)
    fixed, upper = upper_half(len(columns) * K_STEP * ROW_BYTES)
    _issue(d, a, b | fixed, code, offsets, [upper], flag, ctas)


def transposed_product(d: Any, a: Any, b: Any, count: int, code: int, ctas: int = 1) -> None:
    """D = A^T B, summed over `count` rows of both; a, b: starts, in 16-byte units, of tiles of `count` rows."""
    steps = [(first * ROW_BYTES >> 4,) * 2 for first in range(0, count, K_STEP)]
    fixed, upper = upper_half(count * ROW_BYTES)
    _issue(d, a | fixed, b | fixed, code, steps, [upper, upper], Int32(0), ctas)
