"""tcgen05.mma and commit. PTX ISA 9.7.16.10, 9.7.16.12; FACTS C4, C6. One pipe a CTA (or pair) runs them in issue order."""

from collections import deque
from functools import partial
from typing import Any

from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import Act, Rule, active, address_type, first_active, only, unsupported
from attnspec.emulator.instructions.tensor_access import group_of
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.matrix_product import Product, run
from attnspec.emulator.machine.matrix_shape import FORMATS, SCALED, WIDTHS, decode_shape
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.ptx.operands import Address, Immediate, Instruction, Vector

COMMIT_WORDS = ("shared::cluster", "multicast::cluster", "b64")
# Scale factors along K of one instruction (PTX ISA 9.7.16.10.7); what a kind takes if nothing is said.
BLOCKS = {
    "mxf8f6f4": {"scale_vec::1X": 1, "block32": 1, "": 1},
    "mxf4": {"scale_vec::2X": 2, "block32": 2, "": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}


def multiply(instruction: Instruction) -> Rule:
    """tcgen05.mma[.ws].cta_group.kind [d], a, b, idesc, [disable,] enable-d [, scale-d or zero-column-mask]; with block scaling
    [d], a, b, idesc, [scale-a], [scale-b], enable-d. a is a descriptor, or [address]."""
    words = instruction.parts
    kind = next((word.split("::")[1] for word in words if word.startswith("kind::")), "")
    if "sp" in words or kind not in FORMATS:
        raise unsupported(instruction, "sparse forms" if "sp" in words else f"kind::{kind}")
    stationary, scaled = "ws" in words, kind in SCALED
    if scaled != ("block_scale" in words) or (stationary and (scaled or group_of(instruction) == 2)):
        raise unsupported(instruction, "this combination")
    blocks = next((word for word in words if word.startswith("scale_vec") or word in ("block16", "block32")), "")
    if scaled and blocks not in BLOCKS[kind]:
        raise unsupported(instruction, f"block scaling by .{blocks}")
    collectors = (word for word in words if word.startswith("collector::"))
    only(instruction, "mma", "ws", "cta_group::1", "cta_group::2", f"kind::{kind}", "block_scale", blocks, *collectors)
    target, a, b, word, *rest = instruction.operands
    scales, rest = (rest[:2], rest[2:]) if scaled else ([], rest)
    disabled = [item for operand in rest if isinstance(operand, Vector) for item in operand.items]
    rest = [operand for operand in rest if not isinstance(operand, Vector)]
    if len(rest) > 2 or (scaled and (len(rest) > 1 or disabled)):
        raise unsupported(instruction, "these operands")
    reads = [(target, "u32"), (a, "u32" if isinstance(a, Address) else "u64"), (b, "u64"), (word, "u32")]
    reads.append((rest[0] if rest else Immediate(1), "pred"))
    reads.append((rest[1] if len(rest) > 1 else Immediate(0), "u64" if stationary else "u32"))
    reads += [(item, "u32") for item in (*scales, *disabled)]
    call = partial(
        issue_multiply,
        kind=kind,
        group=group_of(instruction),
        tensor_a=isinstance(a, Address),
        blocks=BLOCKS[kind][blocks] if scaled else 0,
        stationary=stationary,
    )
    return Act(call, tuple(reads), unit=f"tcgen05.mma.{kind}")


def single(warp: Any, mask: Any, name: str) -> int:
    """The one lane that issues; each active lane would issue one more."""
    count = active(mask)
    if count != 1:
        raise KernelFault("several-lanes", f"{count} lanes of {warp.name} issue {name}: each issues its own")
    return first_active(mask)


def issue_multiply(
    warp: Any, mask: Any, target: Any, a: Any, b: Any, word: Any, adds: Any, more: Any, *others: Any,
    kind: str, group: int, tensor_a: bool, blocks: int, stationary: bool,
) -> None:  # fmt: skip
    """Queue one multiplication. more: the scaling of D, or the mask of zero columns; others: scale factors or disabled lanes."""
    lane = single(warp, mask, "tcgen05.mma")
    numbers = tuple(int(one[lane]) for one in others)
    if stationary and int(more[lane]):
        raise KernelFault("matrix-descriptor", "zero-column masks are not modelled")
    product = Product(
        decode_shape(int(word[lane]), kind),
        group,
        int(target[lane]),
        int(a[lane]),
        int(b[lane]),
        adds=bool(adds[lane]),
        tensor_a=tensor_a,
        stationary=stationary,
        shift=0 if stationary else int(more[lane]),
        disabled=() if blocks else numbers,
        scales=numbers if blocks else (),
        blocks=blocks,
    )
    queue(
        warp,
        group,
        f"tcgen05.mma {product.shape.m}x{product.shape.n}x{WIDTHS[kind]}",
        partial(run, cta=warp.cta, product=product),
    )


def queue(warp: Any, group: int, name: str, step: Any) -> None:
    """Put a task in the tensor pipe of the CTA, or of the pair's leader."""
    if group == 2 and (warp.cta.rank % 2 or len(warp.cta.cluster.ctas) < 2):
        raise KernelFault("tensor-pair", f"{name} with cta_group::2 is issued by {warp.cta.name}: wanted the even one of a pair")
    task = Task(name, warp.cta, warp.at, deque([step]))
    if warp.machine.observer is not None:
        warp.machine.observer.issue(warp, task, warp.cta.tensor_pipe)
    warp.machine.tasks.issue(task, warp.cta.tensor_pipe)


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
            one.shared.require_alive(task, offset)
            one.mbarrier(offset).arrive(task, 1)

    queue(warp, group, "tcgen05.commit", arrive)


def shift(instruction: Instruction) -> Rule:
    """tcgen05.shift.cta_group.down [address]: rows of 32 bytes move one lane down (PTX ISA 9.7.16.9.3)."""
    only(instruction, "shift", "cta_group::1", "cta_group::2", "down")
    (address,) = instruction.operands
    return Act(partial(issue_shift, group=group_of(instruction)), ((address, "u32"),), unit="tcgen05.shift")


def issue_shift(warp: Any, mask: Any, address: Any, group: int) -> None:
    """Queue the move: each of 32 lanes but the last takes what the next one holds, in 8 columns."""
    lane = single(warp, mask, "tcgen05.shift")
    first, column = int(address[lane]) >> 16, int(address[lane]) & 0xFFFF
    if first % 32:
        raise KernelFault("tensor-quadrant", f"tcgen05.shift from lane {first}: wanted a multiple of 32")
    ctas = [warp.cta] if group == 1 else warp.cta.cluster.ctas[warp.cta.rank :][:2]

    def move(task: Task) -> None:
        for cta in ctas:
            columns = slice(column, column + 8)
            held = cta.tensor.read(task, columns, slice(first + 1, first + 32)).copy()
            cta.tensor.write(task, columns, slice(first, first + 31), held)

    queue(warp, group, "tcgen05.shift", move)


TABLE = {"tcgen05.mma": multiply, "tcgen05.commit": commit, "tcgen05.shift": shift}
