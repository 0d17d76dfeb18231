"""What a family says of an instruction: a pure function of registers, an act on the machine, a move, or a change of control.

Operand types: pred, u8 s8 u16 s16 u32 s32 u64 s64, f16 f32 f64. A 16-bit brain float is read as u16.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from attnspec.emulator.errors import UnknownInstruction
from attnspec.emulator.ptx.operands import Address, Instruction, Operand, Vector

DTYPES: dict[str, Any] = {
    "pred": np.bool_, "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
    "u64": np.uint64, "s64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "u128": np.complex128,  # 16 bytes that nobody computes with
}  # fmt: skip
BITS = {name: 1 if name == "pred" else 8 * np.dtype(dtype).itemsize for name, dtype in DTYPES.items()}
UNTYPED = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "b128": "u128", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32"}


@dataclass(frozen=True)
class Rows:
    """Several operands as one array of shape (operands, 32)."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Loose:
    """An operand that may be undefined: the act then gets None."""

    item: Operand


Reads = tuple[tuple["Operand | Rows | Loose", str], ...]


@dataclass(frozen=True)
class Pure:
    """A function of registers, lane by lane.

    code: a numpy expression over {0}, {1}, ... that is elementwise: it is evaluated on arrays of shape (32,), and on many such
    instructions at once of shape (n, 32). With more than one write it gives a tuple. packed: registers are 64-bit and hold two
    32-bit values, and the code is that of one of them.
    """

    code: str
    reads: Reads
    writes: Reads
    packed: bool = False


@dataclass(frozen=True)
class Act:
    """An access to memory or to another part of the machine: `call(warp, mask, *reads)`, mask None when all lanes are active.

    It gives one array a write (a tuple if several; Rows: one array of rows), or None without writes. blocking: `call` may give
    BLOCKED, and is then called again, later, as if for the first time; such an instruction starts a basic block. pending: its
    results may arrive later, up to the next act that `settles`, or up to their first use. batch: acts of equal batch that follow
    one another may be done in any order, or as one with arrays of shape (n, 32).
    """

    call: Callable[..., Any]
    reads: Reads = ()
    writes: Reads = ()
    blocking: bool = False
    batch: Hashable = None
    pending: bool = False
    settles: bool = False
    unit: str = field(default="")


@dataclass(frozen=True)
class Move:
    """A copy, also between a vector of registers and one wide register."""

    target: Operand
    source: Operand


@dataclass(frozen=True)
class Control:
    """kind: branch, exit, trap or nothing."""

    kind: str


Rule = Pure | Act | Move | Control
BLOCKED = object()
LANES = 32


def kind_of(instruction: Instruction, word: str) -> str:
    """The register type that an opcode's type word means."""
    word = UNTYPED.get(word, word)
    if word not in DTYPES:
        raise UnknownInstruction(instruction.text, instruction.line, f"type .{word}")
    return word


def unsupported(instruction: Instruction, reason: str) -> UnknownInstruction:
    """The error for a form that no rule describes."""
    return UnknownInstruction(instruction.text, instruction.line, reason)


def only(instruction: Instruction, *allowed: str) -> None:
    """Refuse an opcode with a word that the rule at hand does not know: it might change the meaning."""
    for word in instruction.parts[1:]:
        if word not in allowed:
            raise unsupported(instruction, f"modifier .{word}")


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The members of a vector, or the operand itself."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def address_type(instruction: Instruction, operand: Operand) -> str:
    """u32 or u64: how wide an address operand is."""
    if not isinstance(operand, Address):
        raise unsupported(instruction, "wanted an address in brackets")
    return "u64" if getattr(operand.base, "bits", 32) == 64 else "u32"


def first_active(mask: Any) -> int:
    """The lowest active lane."""
    return 0 if mask is None else int(np.argmax(mask))


def active(mask: Any) -> int:
    """How many lanes are active."""
    return LANES if mask is None else int(np.count_nonzero(mask))
