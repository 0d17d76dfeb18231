"""mma.sync: a product of matrices that one warp holds in registers. PTX ISA 9.7.14.5 (shapes, and who holds which element).

Thread t has row t / 4 of A (and that + 8), column t / 4 of B; of each the values of 4-byte group t % 4 and every fourth after it.
"""

import re
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import LANES, Act, Rows, Rule, items_of, only, unsupported
from attnspec.emulator.machine.matrix import widen
from attnspec.emulator.numerics.faithful import CANONICAL_NAN, Form, whole
from attnspec.emulator.ptx.operands import Instruction

# Values of A and B in 32 bits; the depths that PTX has.
FLOATS = {"f16": (2, (8, 16)), "bf16": (2, (8, 16)), "tf32": (1, (4, 8)), "e4m3": (4, (16, 32)), "e5m2": (4, (16, 32))}
WHOLE = {"s8": (4, (16, 32)), "u8": (4, (16, 32))}
NARROW = ("e4m3", "e5m2")
ROWS, COLUMNS = 16, 8


def multiply(instruction: Instruction) -> Rule:
    """mma.sync.aligned.m16n8kK.row.col[.satfinite].D.A.B.C {d}, {a}, {b}, {c}"""
    words = tuple(word for word in instruction.parts if word != "satfinite")
    if len(words) != 10 or (found := re.fullmatch(r"m16n8k(\d+)", words[3])) is None:
        raise unsupported(instruction, "this shape")
    result, a, b, held = words[6:]
    kinds = WHOLE if a in WHOLE else FLOATS
    only(instruction, "sync", "aligned", words[3], "row", "col", result, a, b, held, *(("satfinite",) if a in WHOLE else ()))
    k = int(found[1])
    results = ("s32",) if a in WHOLE else ("f32", "f16") if a != "tf32" and a != "bf16" else ("f32",)
    mixed = a != b and not (a in WHOLE or a in ("e4m3", "e5m2"))
    if a not in kinds or b not in kinds or mixed or k not in kinds[a][1] or result not in results or held != result:
        raise unsupported(instruction, "these types")
    each = kinds[a][0]
    d_rows, a_rows, b_rows, c_rows = (Rows(items_of(operand)) for operand in instruction.operands)
    counts = (2 if result == "f16" else 4, k // (2 * each), k // (4 * each))
    if (len(c_rows.items), len(a_rows.items), len(b_rows.items)) != counts or len(d_rows.items) != counts[0]:
        raise unsupported(instruction, "these registers")
    call = partial(product, form=Form(a, b, result), k=k, saturates="satfinite" in instruction.parts)
    return Act(call, ((a_rows, "u32"), (b_rows, "u32"), (c_rows, "u32")), ((d_rows, "u32"),), unit=f"mma.{a}")


@lru_cache(maxsize=64)
def places(registers: int, each: int, tall: bool) -> tuple[Any, Any]:
    """(row or column, place along K) of value e of thread t in register j of A (tall) or B: arrays (registers, 32, each)."""
    j, t, e = np.arange(registers)[:, None, None], np.arange(LANES)[None, :, None], np.arange(each)
    half, step = (j % 2, j // 2) if tall else (0, j)
    return t // 4 + 8 * half + 0 * e + 0 * j, each * (t % 4 + 4 * step) + e


VALUE, THREAD = np.arange(4)[:, None], np.arange(LANES)[None]
HELD = (THREAD // 4 + 8 * (VALUE // 2), 2 * (THREAD % 4) + VALUE % 2)  # (row, column) of the accumulator's value i of thread t


def gathered(words: Any, format: str, k: int, tall: bool) -> Any:
    """A (16, k) or B (8, k) in f32."""
    values = widen(np.ascontiguousarray(words), format).reshape(len(words), LANES, -1)
    row, depth = places(len(words), values.shape[-1], tall)
    result = np.empty((ROWS if tall else COLUMNS, k), np.float32)
    result[row, depth] = values
    return result


def product(warp: Any, mask: Any, a: Any, b: Any, c: Any, form: Form, k: int, saturates: bool) -> Any:
    """D's registers."""
    if mask is not None:
        raise KernelFault("divergent", "mma.sync needs all 32 lanes")
    warp.meet(orders=False)
    left, right = gathered(a, form.a, k, True), gathered(b, form.b, k, False)
    row, column = HELD
    before = np.empty((COLUMNS, ROWS), np.int32 if form.result == "s32" else np.float32)
    before[column, row] = unpacked(c, form.result)
    if form.result == "s32":
        return np.ascontiguousarray(whole(left, right, before, saturates)[column, row]).view(np.uint32)
    return packed(summed(warp.machine.multiply, left, right, before, form)[column, row], form.result)


def summed(multiply: Any, left: Any, right: Any, held: Any, form: Form) -> Any:
    """The tensor core takes all values of K at once. Of fp8 an H200 makes two products of f16, of the first two values in each
    32 bits and of the last two, and then adds C to their sum."""
    if form.a not in NARROW:
        return multiply(left, right, held, form)
    total, plain = None, Form("f16", "f16", form.result)
    for half in (np.arange(left.shape[1]) % 4 < 2, np.arange(left.shape[1]) % 4 >= 2):
        total = multiply(left[:, half], right[:, half], total, plain)
    result = (total.astype(np.float64) + held).astype(np.float32)
    return np.where(np.isnan(result), CANONICAL_NAN, result)


def unpacked(words: Any, kind: str) -> Any:
    """Values (4, 32) of an accumulator's registers."""
    if kind == "f16":
        halves = np.ascontiguousarray(words).view(np.float16).reshape(2, LANES, 2)
        return halves.transpose(0, 2, 1).reshape(4, LANES).astype(np.float32)
    return np.ascontiguousarray(words).view(np.int32 if kind == "s32" else np.float32)


def packed(values: Any, kind: str) -> Any:
    """The reverse."""
    if kind == "f16":
        halves = values.astype(np.float16).reshape(2, 2, LANES).transpose(0, 2, 1)
        return np.ascontiguousarray(halves).view(np.uint32)[..., 0]
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


TABLE = {"mma.sync": multiply}
