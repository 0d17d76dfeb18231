"""What a basic block computes, as values in single assignment: moves, packing and unpacking of registers vanish here."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from attnspec.emulator.instructions.rule import BITS


@dataclass(eq=False)
class Value:
    """bits: width of the register it can stand in."""

    bits: int


@dataclass(eq=False)
class LiveIn(Value):
    """A register's value from before the block."""

    index: int


@dataclass(eq=False)
class Perhaps(Value):
    """A register's value from before the block, None if it was never written, which is no fault."""

    index: int


@dataclass(eq=False)
class Constant(Value):
    """The same bits in all lanes."""

    value: int


@dataclass(eq=False)
class Given(Value):
    """A special register or the address of a symbol."""

    name: str


@dataclass(eq=False)
class Result(Value):
    """A result of an operation, of a type."""

    type: str
    operation: "Operation"
    position: int


@dataclass(eq=False)
class Pair(Value):
    """Two values of half the width."""

    low: Value
    high: Value


@dataclass(eq=False)
class Half(Value):
    """The low (0) or high (1) half of a value."""

    whole: Value
    which: int


@dataclass(eq=False)
class Many:
    """Values as the rows of one array."""

    items: tuple[Value, ...]


Input = tuple["Value | Many", str]


@dataclass(eq=False)
class Operation:
    """A pure function. code: a numpy expression over {0}, {1}, ...; merges: it needs no defined inputs and is never grouped."""

    code: str
    inputs: tuple[Input, ...]
    outputs: tuple[Result, ...] = ()
    merges: bool = False


@dataclass(eq=False)
class Action(Operation):
    """An act on the machine. rows: its results are the rows of one array. guard: lanes that take part, None for all.
    at: the position of its instruction in the kernel."""

    call: Callable[..., Any] = field(default=lambda: None)
    guard: Value | None = None
    at: int = 0
    rows: bool = False
    blocking: bool = False
    batch: Hashable = None
    pending: bool = False
    settles: bool = False


def result_types(types: tuple[str, ...], operation: Operation) -> tuple[Result, ...]:
    """Fresh results of an operation."""
    operation.outputs = tuple(Result(BITS[type], type, operation, position) for position, type in enumerate(types))
    return operation.outputs


def parts_of(value: Value | Many) -> tuple[Value, ...]:
    """The results and live-ins that a value is made of."""
    if isinstance(value, Many):
        return tuple(part for item in value.items for part in parts_of(item))
    if isinstance(value, Pair):
        return parts_of(value.low) + parts_of(value.high)
    if isinstance(value, Half):
        return parts_of(value.whole)
    return (value,)
