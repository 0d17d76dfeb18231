"""Operands and instructions of PTX, with registers numbered and labels resolved."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register. index: its number in the kernel; bits: 1 (predicate), 8, 16, 32, 64 or 128."""

    index: int
    bits: int
    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. value: an int, or the bits of a float written `0f...` (bits 32) or `0d...` (bits 64); bits 0: an integer."""

    value: int
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable or parameter, plus bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset], in bytes. parts: what follows the base inside the brackets (coordinates of a tensor copy)."""

    base: "Register | Immediate | Symbol"
    offset: int = 0
    parts: "tuple[Operand, ...]" = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, ...}"""

    items: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Two:
    """a|b: two results of one instruction."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Negated:
    """!p"""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """_: a result nobody wants."""


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target. position: index of the instruction that follows the label."""

    name: str
    position: int


Operand = Register | Immediate | Special | Symbol | Address | Vector | Two | Negated | Sink | Label


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. guard: the predicate of `@p` or `@!p`. source: (file, line) of the last `.loc`, if any."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    line: int
    text: str
    source: tuple[str, int] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The opcode's words: `add.rn.f32x2` -> ("add", "rn", "f32x2")."""
        return tuple(self.opcode.split("."))


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared array. space: shared, local, global, const or param. size: bytes; 0 for dynamic shared memory."""

    name: str
    space: str
    align: int
    size: int
    initial: bytes = b""


@dataclass(frozen=True)
class Kernel:
    """One `.entry`. registers: the names, by index. threads: of `.reqntid`, or None."""

    name: str
    target: str
    parameters: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    registers: tuple[str, ...]
    threads: tuple[int, int, int] | None
    max_registers: int | None
