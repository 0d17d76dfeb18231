"""Instructions of a basic block to operations on values."""

from collections.abc import Callable
from dataclasses import dataclass, field

from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.instructions.rule import BITS, Act, Control, Loose, Move, Pure, Reads, Rows, Rule, unsupported
from attnspec.emulator.ptx.operands import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from attnspec.emulator.translate.values import (
    Action,
    Constant,
    Given,
    Half,
    Input,
    LiveIn,
    Many,
    Operation,
    Pair,
    Perhaps,
    Value,
    result_types,
)


@dataclass
class Built:
    """A block as operations. registers: values at its end; condition: of its last branch or exit, None if it has none."""

    operations: list[Operation] = field(default_factory=list)
    registers: dict[int, Value] = field(default_factory=dict)
    exposed: dict[int, Value] = field(default_factory=dict)
    ending: str = "fall"
    condition: Value | None = None
    ending_at: int = 0


class Builder:
    """Reads the instructions of one block in order. written: registers that some instruction of the kernel may write."""

    def __init__(self, rule_of: Callable[[Instruction], Rule], written: frozenset[int]) -> None:
        self.rule_of = rule_of
        self.written = written
        self.built = Built()
        self.at = 0

    def block(self, instructions: tuple[Instruction, ...], first: int) -> Built:
        """All of a block. first: position of its first instruction."""
        for self.at, instruction in enumerate(instructions, first):
            rule = self.rule_of(instruction)
            guard = self.guard(instruction)
            if isinstance(rule, Move):
                self.move(instruction, rule, guard)
            elif isinstance(rule, Pure):
                self.pure(instruction, rule, guard)
            elif isinstance(rule, Act):
                self.act(instruction, rule, guard)
            else:
                self.control(instruction, rule, guard)
        return self.built

    def guard(self, instruction: Instruction) -> Value | None:
        """The lanes of `@p`, `@!p`."""
        guard = instruction.guard
        return None if guard is None else self.read(instruction, guard, "pred")

    def register(self, register: Register) -> Value:
        """A register's value at this point."""
        found = self.built.registers.get(register.index) or self.built.exposed.get(register.index)
        if found is None:
            found = self.built.exposed[register.index] = LiveIn(register.bits, register.index)
        return found

    def compute(self, code: str, inputs: tuple[Input, ...], type: str, merges: bool = False) -> Value:
        """A fresh value of a pure function."""
        operation = Operation(code, inputs, merges=merges)
        self.built.operations.append(operation)
        return result_types((type,), operation)[0]

    def read(self, instruction: Instruction, operand: Operand, type: str) -> Value:
        """An operand's value, as wide as the type: a wider register gives its low bits."""
        bits = BITS[type]
        match operand:
            case Register():
                value = self.register(operand)
                if value.bits > bits:
                    return self.compute(f"{{0}}.astype(T_u{bits})", ((value, f"u{value.bits}"),), f"u{bits}")
                if value.bits < bits:
                    raise unsupported(instruction, f"{operand.name} is narrower than .{type}")
                return value
            case Negated(register):
                return self.compute("~{0}", ((self.register(register), "pred"),), "pred")
            case Immediate(value, width):
                if width and bits != width:
                    raise unsupported(instruction, f"a {width}-bit float constant for .{type}")
                return Constant(bits, value % (1 << bits) if bits > 1 else int(value != 0))
            case Special(name):
                return Given(bits, name)
            case Symbol(name, offset):
                value = Given(bits, name)
                return value if not offset else self.add(value, offset, bits)
            case Vector(items):
                return self.pack(instruction, items, bits)
            case Address(base, offset):
                value = self.read(instruction, base, type)
                return value if not offset else self.add(value, offset, bits)
            case _:
                raise unsupported(instruction, f"operand {operand}")

    def add(self, value: Value, offset: int, bits: int) -> Value:
        """value + offset."""
        type = f"u{bits}"
        return self.compute("{0} + {1}", ((value, type), (Constant(bits, offset % (1 << bits)), type)), type)

    def pack(self, instruction: Instruction, items: tuple[Operand, ...], bits: int) -> Value:
        """{a, b}: the first is the lowest. Padding, a register that nothing in the kernel writes, is all ones: LLVM pads so what
        it packs (`mov.b32 %r1, {%rs1, %rs2}` before a store of one byte)."""
        if len(items) == 1:
            if isinstance(items[0], Register) and items[0].index not in self.written:
                return Constant(bits, (1 << bits) - 1)
            return self.read(instruction, items[0], f"u{bits}")
        half = len(items) // 2
        low = self.pack(instruction, items[:half], bits // 2)
        return Pair(bits, low, self.pack(instruction, items[half:], bits // 2))

    def input(self, instruction: Instruction, operand: Operand | Rows | Loose, type: str) -> Input:
        """What an operation reads."""
        if isinstance(operand, Rows):
            return Many(tuple(self.read(instruction, item, type) for item in operand.items)), type
        if isinstance(operand, Loose):
            return perhaps(self.read(instruction, operand.item, type)), type
        return self.read(instruction, operand, type), type

    def write(self, instruction: Instruction, operand: Operand, value: Value, guard: Value | None) -> None:
        """Bind a register, a vector of registers, or nothing, to a value."""
        if isinstance(operand, Sink):
            return
        if isinstance(operand, Vector):
            self.unpack(instruction, operand.items, value, guard)
            return
        if not isinstance(operand, Register):
            raise unsupported(instruction, f"cannot write to {operand}")
        if operand.bits > value.bits:
            value = self.compute(f"{{0}}.astype(T_u{operand.bits})", ((value, f"u{value.bits}"),), f"u{operand.bits}")
        if guard is not None:
            type = "pred" if operand.bits == 1 else f"u{operand.bits}"
            old = perhaps(self.register(operand))
            value = self.compute("merge({0}, {1}, {2})", ((guard, "pred"), (value, type), (old, type)), type, merges=True)
        self.built.registers[operand.index] = value

    def unpack(self, instruction: Instruction, items: tuple[Operand, ...], value: Value, guard: Value | None) -> None:
        """Spread a wide value over registers."""
        if len(items) == 1:
            self.write(instruction, items[0], value, guard)
            return
        half = len(items) // 2
        pair = isinstance(value, Pair)
        low = value.low if pair else Half(value.bits // 2, value, 0)  # pyright: ignore[reportAttributeAccessIssue]
        high = value.high if pair else Half(value.bits // 2, value, 1)  # pyright: ignore[reportAttributeAccessIssue]
        self.unpack(instruction, items[:half], low, guard)
        self.unpack(instruction, items[half:], high, guard)

    def move(self, instruction: Instruction, rule: Move, guard: Value | None) -> None:
        """A copy costs nothing: the target is another name of the value."""
        target = rule.target
        if isinstance(target, Register):
            bits = target.bits
        elif isinstance(target, Vector):
            bits = sum(item.bits for item in target.items if isinstance(item, Register))
            if isinstance(rule.source, Register):
                bits = rule.source.bits
        else:
            raise unsupported(instruction, "a move to this operand")
        value = self.read(instruction, rule.source, "pred" if bits == 1 else f"u{bits}")
        self.write(instruction, target, value, guard)

    def pure(self, instruction: Instruction, rule: Pure, guard: Value | None) -> None:
        """An operation, or two of them for a packed one."""
        types = tuple(type for _, type in rule.writes)
        if rule.packed:
            wide = [self.read(instruction, operand, "u64") for operand, _ in rule.reads if not isinstance(operand, Rows | Loose)]
            halves = []
            for which in (0, 1):
                inputs = tuple((split(value, which), type) for value, (_, type) in zip(wide, rule.reads, strict=True))
                halves.append(self.compute(rule.code, inputs, types[0]))
            results: tuple[Value, ...] = (Pair(64, halves[0], halves[1]),)
        else:
            operation = Operation(rule.code, tuple(self.input(instruction, operand, type) for operand, type in rule.reads))
            self.built.operations.append(operation)
            results = result_types(types, operation)
        for (operand, _), value in zip(rule.writes, results, strict=True):
            if isinstance(operand, Rows | Loose):
                raise EmulatorError("rows are results of acts only")
            self.write(instruction, operand, value, guard)

    def act(self, instruction: Instruction, rule: Act, guard: Value | None) -> None:
        """An act, kept in order with the other acts of the block."""
        inputs = tuple(self.input(instruction, operand, type) for operand, type in rule.reads)
        action = Action("", inputs, call=rule.call, guard=guard, at=self.at, blocking=rule.blocking)
        action.pending, action.settles, action.batch = rule.pending, rule.settles, None if guard else rule.batch
        targets, types = self.targets(rule.writes)
        action.rows = any(isinstance(operand, Rows) for operand, _ in rule.writes)
        self.built.operations.append(action)
        for operand, value in zip(targets, result_types(types, action), strict=True):
            self.write(instruction, operand, value, guard)

    @staticmethod
    def targets(writes: Reads) -> tuple[tuple[Operand, ...], tuple[str, ...]]:
        """The registers written and their types; Rows spread out."""
        flat: list[tuple[Operand, str]] = []
        for operand, type in writes:
            if isinstance(operand, Loose):
                raise EmulatorError("a result is not loose")
            flat += [(item, type) for item in operand.items] if isinstance(operand, Rows) else [(operand, type)]
        return tuple(operand for operand, _ in flat), tuple(type for _, type in flat)

    def control(self, instruction: Instruction, rule: Control, guard: Value | None) -> None:
        """The end of the block."""
        if rule.kind != "nothing":
            self.built.ending = rule.kind
            self.built.condition = guard
            self.built.ending_at = self.at


def perhaps(value: Value) -> Value:
    """A value that may be undefined."""
    return Perhaps(value.bits, value.index) if isinstance(value, LiveIn) else value


def split(value: Value, which: int) -> Value:
    """One half of a 64-bit value."""
    if isinstance(value, Pair):
        return value.high if which else value.low
    if isinstance(value, Constant):
        return Constant(32, value.value >> 32 * which & 0xFFFFFFFF)
    return Half(32, value, which)
