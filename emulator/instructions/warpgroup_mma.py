"""wgmma of sm_90a: matrix products of a warpgroup that complete later. PTX ISA 9.7.15; FACTS C3, C12.

Each warp computes its own 16 rows, in the order of issue; a warp that waits for products waits until all four have issued them.
Their registers hold rubbish until they are done (PTX ISA: touching them is undefined); a chain of products on one accumulator
takes it where the product before leaves it.
"""

import re
from collections import deque
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.control import Waiting
from attnspec.emulator.instructions.rule import BLOCKED, LANES, Act, Loose, Rows, Rule, items_of, only, unsupported
from attnspec.emulator.machine.matrix import SPANS, Tile, gather_tile, widen
from attnspec.emulator.machine.tasks import Pipe, Task
from attnspec.emulator.machine.warpgroup import warpgroup_of
from attnspec.emulator.numerics.faithful import Form, whole
from attnspec.emulator.ptx.operands import Immediate, Instruction, Vector

ELEMENTS = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
WHOLE = ("s8", "u8")
CODES = {0: 0, 1: 2, 2: 4, 3: 6}  # the swizzle's code here -> that of a tcgen05 descriptor
FP8_FRACTION = 13  # bits that Hopper keeps of fp8 sums (FACTS C11)
ROWS = 16


def multiply(instruction: Instruction) -> Rule:
    """wgmma.mma_async.sync.aligned.m64nNkK.D.A.B {d}, a, b, scale-d, negate-a, negate-b [, turned-a] [, turned-b]; of integers
    ...[.satfinite].s32.A.B {d}, a, b, scale-d"""
    words = tuple(word for word in instruction.parts if word != "satfinite")
    shape, result, a_format, b_format = words[4:8] if len(words) == 8 else ("", "", "", "")
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    integers = a_format in WHOLE
    results = ("s32",) if integers else ("f32", "f16")
    if found is None or a_format not in ELEMENTS or b_format not in (WHOLE if integers else ELEMENTS) or result not in results:
        raise unsupported(instruction, "this shape or type")
    only(instruction, "mma_async", "sync", "aligned", shape, result, a_format, b_format, *(("satfinite",) if integers else ()))
    n, k = int(found[1]), int(found[2])
    if n % 8 or not 8 <= n <= 256 or k * ELEMENTS[a_format] != 32:
        raise unsupported(instruction, "this shape")
    target, a, b, adds, *flags = instruction.operands
    numbers = [1, 1] if integers and not flags else [flag.value for flag in flags if isinstance(flag, Immediate)]
    flags = flags or numbers
    registers = isinstance(a, Vector)
    turns = numbers[2:] if ELEMENTS[a_format] == 2 else []
    if len(numbers) != len(flags) or len(numbers) < 2 or any(number not in (1, -1, (1 << 32) - 1) for number in numbers[:2]):
        raise unsupported(instruction, "these constants")
    rows = items_of(target)
    if len(rows) != (n // 4 if result == "f16" else n // 2):
        raise unsupported(instruction, f"{len(rows)} registers of the accumulator")
    call = partial(
        issue,
        n=n,
        k=k,
        form=Form(a_format, b_format, result, FP8_FRACTION if ELEMENTS[a_format] == 1 else 25),
        negates=(numbers[0] == 1) != (numbers[1] == 1),
        turned=(bool(turns[0]) if turns and not registers else False, bool(turns[-1]) if turns else False),
        registers=registers,
        saturates="satfinite" in instruction.parts,
    )
    sources = ((Rows(items_of(a)), "u32") if registers else (a, "u64"), (b, "u64"), (adds, "pred"))
    # Register by register, so that the accumulator is seen where it is, and not a copy of it that is not there yet.
    return Act(call, (*sources, *((Loose(row), "u32") for row in rows)), ((Rows(rows), "u32"),), unit=f"wgmma.{a_format}")


def decode(word: int) -> Tile:
    """A shared memory descriptor of sm_90a."""
    if word >> 46 & 7 or word >> 52 & 1023:
        raise KernelFault("matrix-descriptor", f"matrix descriptor {word:#x}: bits 46 to 48 and 52 to 61 must be 0")
    swizzle = CODES[word >> 62]
    return Tile((word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4, swizzle, word >> 49 & 7)


@lru_cache(maxsize=64)
def places(registers: int) -> tuple[Any, Any]:
    """(row of the warp's 16, column) of register i (rows) in thread t (columns), 32-bit results (FACTS C12)."""
    i, t = np.arange(registers)[:, None], np.arange(LANES)[None]
    return t // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2


def issue(
    warp: Any, mask: Any, a: Any, b: Any, adds: Any, *old: Any,
    n: int, k: int, form: Form, negates: bool, turned: tuple[bool, bool], registers: bool, saturates: bool,
) -> Any:  # fmt: skip
    """Queue one product; its registers as rows, which are filled when it is done."""
    if mask is not None:
        raise KernelFault("divergent", "wgmma needs all 32 lanes")
    warp.meet(orders=False)
    result = np.full((len(old), LANES), 0xFFFFFFFF, np.uint32)
    chained = in_flight(warp, old)
    if chained is None and bool(adds[0]) and any(row is None for row in old):
        raise KernelFault("uninitialised-register", "a register of wgmma's accumulator is read before it is written")
    held = chained if chained is not None else np.array(old) if bool(adds[0]) else None
    cta, a_words, b_word, enabled = warp.cta, np.array(a), int(b[0]), bool(adds[0])

    def run(task: Task) -> None:
        if registers:
            left = from_registers(a_words, form.a)
        else:
            tile = decode(int(a_words[0]))
            first, rows = (0, 64) if turned[0] else (ROWS * (warp.index % 4), ROWS)
            left = gather_tile(task, cta.shared, tile, rows, k, form.a, turned[0], first)
            left = left[ROWS * (warp.index % 4) :][:ROWS] if turned[0] else left
        right = gather_tile(task, cta.shared, decode(b_word), n, k, form.b, turned[1])
        before = spread(held, form.result) if enabled else None
        if form.result == "s32":
            product = whole(left, right, before, saturates)
        else:
            product = cta.machine.multiply(-left if negates else left, right, before, form)
        result[...] = collected(product, form.result)

    pipe = warp.matrix_pipe = warp.matrix_pipe or Pipe(f"wgmma of {warp.name}")
    task = Task(f"wgmma m64n{n}k{k} of {warp.name}", cta, warp.at, deque([run]), result=result)
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task, pipe)
    warp.products_open.append(task)
    warpgroup_of(warp).add(warp, task)
    warp.machine.tasks.issue(task, pipe)
    return result


def in_flight(warp: Any, old: tuple[Any, ...]) -> Any:
    """The registers of a product that is not done and whose result these registers are."""
    if any(row is None for row in old):
        return None
    base = old[0].base
    for task in [*warp.products_open, *(task for group in warp.product_groups for task in group)]:
        if task.steps and task.result is base and all(row.base is base for row in old):
            return base
    return None


def spread(rows: Any, kind: str) -> Any:
    """Registers as the accumulator (n, 16) in f32, or s32."""
    values = rows.view(np.int32 if kind == "s32" else np.float32)
    if kind == "f16":
        halves = np.ascontiguousarray(rows).view(np.float16).reshape(len(rows), LANES, 2)
        values = halves.transpose(0, 2, 1).reshape(2 * len(rows), LANES).astype(np.float32)
    row, column = places(len(values))
    result = np.empty((2 * len(values), ROWS), values.dtype)
    result[column, row] = values
    return result


def collected(product: Any, kind: str) -> Any:
    """An accumulator (n, 16) as registers."""
    row, column = places(len(product) // 2)
    values = product[column, row]
    if kind != "f16":
        return values.astype(np.int32 if kind == "s32" else np.float32).view(np.uint32)
    halves = values.astype(np.float16).reshape(-1, 2, LANES).transpose(0, 2, 1)
    return np.ascontiguousarray(halves).view(np.uint32)[..., 0]


def from_registers(words: Any, format: str) -> Any:
    """A's 16 rows from four registers: each has 4 / element values side by side, register i % 2 the lower rows."""
    values = widen(np.ascontiguousarray(words), format).reshape(4, LANES, -1)
    each = values.shape[-1]
    t = np.arange(LANES)[:, None]
    result = np.empty((ROWS, 8 * each), np.float32)
    for i in range(4):
        result[t // 4 + 8 * (i % 2), each * (t % 4) + np.arange(each) + 4 * each * (i // 2)] = values[i]
    return result


def fence(instruction: Instruction) -> Rule:
    """wgmma.fence: registers and accumulators written before are seen; registers are read at issue here."""
    only(instruction, "fence", "sync", "aligned")

    def call(warp: Any, mask: Any) -> None:
        if warp.machine.observer is not None:
            warp.machine.observer.fence(warp, "wgmma")

    return Act(call)


def commit(instruction: Instruction) -> Rule:
    """wgmma.commit_group closes the open group."""
    only(instruction, "commit_group", "sync", "aligned")

    def call(warp: Any, mask: Any) -> None:
        warp.product_groups.append(warp.products_open)
        warp.products_open = []

    return Act(call)


def wait(instruction: Instruction) -> Rule:
    """wgmma.wait_group N: all groups but the N most recent are done. It starts a block, so that nothing that stands after it, and
    may use their registers, is computed before it."""
    only(instruction, "wait_group", "sync", "aligned")
    (count,) = instruction.operands
    if not isinstance(count, Immediate):
        raise unsupported(instruction, "wanted a constant")
    return Act(partial(complete, count=count.value), blocking=True)


def complete(warp: Any, mask: Any, count: int) -> Any:
    """Blocks until the other warps of the warpgroup have issued the products too. Being asynchronous, those may be done at this
    very moment; that is when they are if they have not been yet."""
    groups = warp.product_groups
    tasks = [task for group in (groups[: len(groups) - count] if count else groups) for task in group]
    if tasks:
        together = warpgroup_of(warp)
        number = together.number(warp, tasks[-1])
        if not together.joined(number):
            together.waiting.append(warp)
            warp.wait = Waiting(together)
            return BLOCKED
        warp.wait = None
        tasks = together.complete(warp, number)
    warp.product_groups = groups[len(groups) - count :] if count else []
    if warp.machine.observer is not None:
        warp.machine.observer.settled(warp, "wgmma", tasks)
    return None


TABLE = {
    "wgmma.mma_async": multiply,
    "wgmma.fence": fence,
    "wgmma.commit_group": commit,
    "wgmma.wait_group": wait,
}
assert set(CODES.values()) <= set(SPANS)
