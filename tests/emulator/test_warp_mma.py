"""mma.sync: each element of A, B, C and D in the register where the PTX ISA (9.7.14.5) says, by its own formulas, one by one."""

import numpy as np
import pytest
from attnspec.emulator.errors import UnknownInstruction

from tests.emulator.snippet import run

RNG = np.random.default_rng(5)
EACH = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}
FORMS = [
    ("f32", "f16", "f16", 8), ("f32", "f16", "f16", 16), ("f16", "f16", "f16", 8), ("f16", "f16", "f16", 16),
    ("f32", "bf16", "bf16", 8), ("f32", "bf16", "bf16", 16), ("f32", "tf32", "tf32", 4), ("f32", "tf32", "tf32", 8),
    ("f32", "e4m3", "e5m2", 16), ("f32", "e4m3", "e4m3", 32), ("f16", "e5m2", "e4m3", 32),
    ("s32", "s8", "u8", 16), ("s32", "u8", "s8", 32),
]  # fmt: skip


def code(value: int, kind: str) -> int:
    """A small whole number as the bits of a format."""
    if kind in ("s8", "u8"):
        return value & 255
    if kind in ("e4m3", "e5m2"):
        size, bias = {"e4m3": (3, 7), "e5m2": (2, 15)}[kind]
        power = max(abs(value).bit_length() - 1, 0)
        return 0 if not value else (value < 0) << 7 | power + bias << size | (abs(value) << size >> power) & (1 << size) - 1
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    bits = int(np.float32(value).view(np.uint32))
    return bits >> 16 if kind == "bf16" else bits


def words(values: list[int], kind: str) -> list[int]:
    """Codes packed into words, the first lowest."""
    each, width = EACH[kind], 32 // EACH[kind]
    codes = [code(value, kind) for value in values]
    return [sum(codes[at + n] << width * n for n in range(each)) for at in range(0, len(codes), each)]


def a_place(i: int, t: int, each: int) -> tuple[int, int]:
    """Row and column of a_i."""
    second, later = i // each % 2, i // (2 * each)
    return t // 4 + 8 * second, each * (t % 4) + i % each + 4 * each * later


def b_place(i: int, t: int, each: int) -> tuple[int, int]:
    """Row and column of b_i."""
    return each * (t % 4) + i % each + 4 * each * (i // each), t // 4


def c_place(i: int, t: int) -> tuple[int, int]:
    """Row and column of c_i."""
    return t // 4 + 8 * (i // 2), 2 * (t % 4) + i % 2


@pytest.mark.parametrize("form", FORMS, ids=lambda form: ".".join(map(str, form)))
def test_each_element_is_where_the_isa_says(form):
    result, a_kind, b_kind, k = form
    low = 0 if a_kind == "u8" else -2
    a, b, c = RNG.integers(low, 3, (16, k)), RNG.integers(0 if b_kind == "u8" else -2, 3, (k, 8)), RNG.integers(-3, 4, (16, 8))
    each, wide = EACH[a_kind], "f16" if result == "f16" else "f32"
    given = np.zeros((32, 10), np.uint32)
    for t in range(32):
        mine = words([int(a[a_place(i, t, each)]) for i in range(k // 2)], a_kind)
        mine += words([int(b[b_place(i, t, each)]) for i in range(k // 4)], b_kind)
        held = [int(c[c_place(i, t)]) for i in range(4)]
        mine += [value & 0xFFFFFFFF for value in held] if result == "s32" else words(held, {"f16": "f16", "f32": "tf32"}[wide])
        given[t, : len(mine)] = mine
    out = np.zeros((32, 4), np.uint32)
    counts = (k // 2 // each, k // 4 // each, 2 if result == "f16" else 4)
    starts = (1, 1 + counts[0], 1 + counts[0] + counts[1])
    vectors = ["{" + ", ".join(f"%r{start + n}" for n in range(count)) + "}" for start, count in zip(starts, counts, strict=True)]
    body = "mov.u32 %r0, %laneid; mul.wide.u32 %rd9, %r0, 40; add.s64 %rd8, %rd0, %rd9; mul.wide.u32 %rd9, %r0, 16;"
    body += "".join(f"ld.global.b32 %r{1 + n}, [%rd8+{4 * n}];" for n in range(sum(counts)))
    target = "{" + ", ".join(f"%r{20 + n}" for n in range(counts[2])) + "}"
    body += f"mma.sync.aligned.m16n8k{k}.row.col.{result}.{a_kind}.{b_kind}.{result} {target}, {', '.join(vectors)};"
    body += "add.s64 %rd8, %rd1, %rd9;" + "".join(f"st.global.b32 [%rd8+{4 * n}], %r{20 + n};" for n in range(counts[2]))
    run(body, given, out).check()
    right = a @ b + c
    for t in range(32):
        found = out[t].view({"s32": np.int32, "f16": np.float16, "f32": np.float32}[result])
        assert [float(found[i]) for i in range(4)] == [float(right[c_place(i, t)]) for i in range(4)]


@pytest.mark.parametrize(
    "opcode",
    ["mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32", "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
     "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"],
)  # fmt: skip
def test_other_forms_are_errors_with_their_line(opcode):
    four = "{%r1, %r2, %r3, %r4}"
    with pytest.raises(UnknownInstruction, match="PTX line"):
        run(f"{opcode} {four}, {four}, {{%r5, %r6}}, {four};")
