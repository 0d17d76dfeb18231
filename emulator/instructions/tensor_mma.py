"""tcgen05.mma and commit. PTX ISA 9.7.16.10, 9.7.16.12; FACTS C4, C6. One pipe a CTA (or pair) runs them in issue order."""

from collections import deque
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import Act, Rule, active, address_type, first_active, only, unsupported
from attnspec.emulator.instructions.tensor_access import group_of
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.matrix import Instruction as Shape
from attnspec.emulator.machine.matrix import decode_instruction, from_shared, from_tensor
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.numerics.faithful import Form
from attnspec.emulator.ptx.operands import Address, Immediate, Instruction, Vector

COMMIT_WORDS = ("shared::cluster", "multicast::cluster", "b64")
WIDTHS = {"f16": 16, "tf32": 8, "f8f6f4": 32}


def multiply(instruction: Instruction) -> Rule:
    """tcgen05.mma.cta_group.kind [d], a, b, idesc, [disable,] enable-d [, scale-d]: a is a descriptor, or [address]."""
    words = instruction.parts
    if "ws" in words or "sp" in words or any(word.startswith("block_scale") for word in words):
        raise unsupported(instruction, "weight-stationary, sparse and block-scaled forms")
    only(
        instruction,
        "mma",
        "cta_group::1",
        "cta_group::2",
        *(word for word in words if word.startswith(("kind::", "collector::"))),
    )
    kind = next((word.split("::")[1] for word in words if word.startswith("kind::")), "")
    if kind not in WIDTHS:
        raise unsupported(instruction, f"kind::{kind}")
    target, a, b, shape, *rest = instruction.operands
    disabled = [item for operand in rest if isinstance(operand, Vector) for item in operand.items]
    rest = [operand for operand in rest if not isinstance(operand, Vector)]
    if len(rest) > 1:
        raise unsupported(instruction, "scale-input-d")
    reads = [(target, "u32"), (a, "u32" if isinstance(a, Address) else "u64"), (b, "u64"), (shape, "u32")]
    reads.append((rest[0] if rest else Immediate(1), "pred"))
    reads += [(item, "u32") for item in disabled]
    call = partial(issue_multiply, kind=kind, group=group_of(instruction), tensor_a=isinstance(a, Address))
    return Act(call, tuple(reads), unit=f"tcgen05.mma.{kind}")


def single(warp: Any, mask: Any, name: str) -> int:
    """The one lane that issues; each active lane would issue one more."""
    count = active(mask)
    if count != 1:
        raise KernelFault("several-lanes", f"{count} lanes of {warp.name} issue {name}: each issues its own")
    return first_active(mask)


def issue_multiply(
    warp: Any, mask: Any, target: Any, a: Any, b: Any, word: Any, adds: Any, *disabled: Any, kind: str, group: int, tensor_a: bool
) -> None:
    """Queue one multiplication."""
    lane = single(warp, mask, "tcgen05.mma")
    if any(int(one[lane]) for one in disabled):
        raise KernelFault("matrix-descriptor", "disabled output lanes are not modelled")
    shape = decode_instruction(int(word[lane]), kind)
    call = {1: one_cta, 2: two_ctas}[group]
    step = partial(
        call,
        warp=warp,
        shape=shape,
        width=WIDTHS[kind],
        target=int(target[lane]),
        a=int(a[lane]),
        b=int(b[lane]),
        adds=bool(adds[lane]),
        tensor_a=tensor_a,
    )
    queue(warp, group, f"tcgen05.mma {shape.m}x{shape.n}x{WIDTHS[kind]}", step)


def queue(warp: Any, group: int, name: str, step: Any) -> None:
    """Put a task in the tensor pipe of the CTA, or of the pair's leader."""
    if group == 2 and (warp.cta.rank % 2 or len(warp.cta.cluster.ctas) < 2):
        raise KernelFault("tensor-pair", f"{name} with cta_group::2 is issued by {warp.cta.name}: wanted the even one of a pair")
    task = Task(name, warp.cta, warp.at, deque([step]))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task, warp.cta.tensor_pipe)
    warp.machine.tasks.issue(task, warp.cta.tensor_pipe)


def one_cta(task: Task, warp: Any, shape: Shape, width: int, target: int, a: int, b: int, adds: bool, tensor_a: bool) -> None:
    """cta_group::1: M of 128 rows in lanes 0 to 127, or of 64 in 16 lanes of each quadrant (layouts D and F)."""
    if shape.m not in (64, 128) or not 8 <= shape.n <= 256:
        raise KernelFault("matrix-descriptor", f"M {shape.m}, N {shape.n} with cta_group::1")
    cta = warp.cta
    rows = operand_a(task, cta, shape, width, a, tensor_a, shape.m)
    columns = from_shared(task, cta.shared, b, shape.n, width, shape.b, shape.b_mn)
    accumulate(task, cta, shape, target, rows, columns, adds, lanes_of(shape.m, target))


def operand_a(task: Task, cta: Any, shape: Shape, width: int, a: int, tensor_a: bool, rows: int) -> Any:
    """A's rows of one CTA."""
    if tensor_a:
        return from_tensor(task, cta.tensor, a & 0xFFFF, lanes_of(rows, a), width, shape.a)
    return from_shared(task, cta.shared, a, rows, width, shape.a, shape.a_mn)


def lanes_of(rows: int, address: int) -> Any:
    """Lanes of the rows of a tile in tensor memory."""
    first = address >> 16
    if rows == 128:
        if first:
            raise KernelFault("tensor-quadrant", f"a tile of 128 rows starts at lane {first}")
        return slice(0, 128)
    row = np.arange(rows)
    return 32 * (row // 16) + row % 16 + first


def accumulate(task: Task, cta: Any, shape: Shape, target: int, a: Any, b: Any, adds: bool, lanes: Any) -> None:
    """D = A B' + D in one CTA's tensor memory. a: (rows, k); b: (n, k)."""
    column = target & 0xFFFF
    columns: Any = slice(column, column + len(b))
    if not isinstance(lanes, slice):
        columns = np.arange(column, column + len(b))[:, None]
    if shape.negate_a != shape.negate_b:
        a = -a
    old = cta.tensor.read(task, columns, lanes) if adds else None
    form = Form(shape.a, shape.b, shape.result)
    if shape.result == "f16":
        held = None if old is None else (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
        result = cta.machine.multiply(a, b, held, form).astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        result = cta.machine.multiply(a, b, None if old is None else old.view(np.float32), form).view(np.uint32)
    cta.tensor.write(task, columns, lanes, result)


def two_ctas(task: Task, warp: Any, shape: Shape, width: int, target: int, a: int, b: int, adds: bool, tensor_a: bool) -> None:
    """cta_group::2: each CTA of the pair holds half of A's rows and half of B's columns (layouts A and B)."""
    if shape.m not in (128, 256) or not 16 <= shape.n <= 256:
        raise KernelFault("matrix-descriptor", f"M {shape.m}, N {shape.n} with cta_group::2")
    rank = warp.cta.rank
    pair = warp.cta.cluster.ctas[rank : rank + 2]
    halves = [from_shared(task, cta.shared, b, shape.n // 2, width, shape.b, shape.b_mn) for cta in pair]
    columns = np.concatenate(halves)
    for cta in pair:
        if shape.m == 256:
            rows = operand_a(task, cta, shape, width, a, tensor_a, 128)
            accumulate(task, cta, shape, target, rows, columns, adds, slice(0, 128))
            continue
        # 64 rows each: lanes 0 to 63 hold the first half of the columns, lanes 64 to 127 the second.
        if tensor_a:
            rows = from_tensor(task, cta.tensor, a & 0xFFFF, slice(0, 64), width, shape.a)
        else:
            rows = from_shared(task, cta.shared, a, 64, width, shape.a, shape.a_mn)
        accumulate(task, cta, shape, target, rows, columns[: shape.n // 2], adds, slice(0, 64))
        accumulate(task, cta, shape, target, rows, columns[shape.n // 2 :], adds, slice(64, 128))


def commit(instruction: Instruction) -> Rule:
    """tcgen05.commit ... [mbarrier] [, mask]: an arrival once all earlier work of the pipe is done."""
    only(instruction, "commit", "cta_group::1", "cta_group::2", "mbarrier::arrive::one", *COMMIT_WORDS)
    barrier, *mask = instruction.operands
    reads = ((barrier, address_type(instruction, barrier)), *((one, "u16") for one in mask))
    return Act(partial(issue_commit, group=group_of(instruction)), reads, unit="tcgen05.commit")


def issue_commit(warp: Any, mask: Any, barrier: Any, ctas: Any = None, group: int = 1) -> None:
    """Queue the arrival; with a mask of CTAs, one at the same offset in each."""
    lane = single(warp, mask, "tcgen05.commit")
    cta, offset = shared_place(warp, int(barrier[lane]))
    targets = [cta]
    if ctas is not None:
        targets = [cta.cluster.cta(rank) for rank in range(16) if int(ctas[lane]) >> rank & 1]

    def arrive(task: Task) -> None:
        for one in targets:
            one.shared.require_alive(task)
            one.mbarrier(offset).arrive(task, 1)

    queue(warp, group, "tcgen05.commit", arrive)


TABLE = {"tcgen05.mma": multiply, "tcgen05.commit": commit}
