"""Registers of a wgmma that are touched before its `wait_group`, or since the last `wgmma.fence`. PTX ISA 9.7.15.3, 9.7.15.7.

Until `wgmma.wait_group` nobody may read or write an accumulator, nor write a fragment of A; and a `wgmma.fence` lies between any
other access of such registers and the wgmma. Copies by `mov` are no access: LLVM makes them of loops, ptxas unmakes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from attnspec.emulator.ptx.operands import Address, Immediate, Instruction, Kernel, Negated, Operand, Register, Two, Vector

PRODUCT, FENCE, WAIT = "wgmma.mma_async", "wgmma.fence", "wgmma.wait_group"
Roots = frozenset[tuple[bool, int]]  # what a register holds: a register's value from before the block, or a product's result


@dataclass(frozen=True)
class Product:
    """A wgmma of a block. needs: registers that a fence has to cover; since: those of them that the block touches before it and
    after its last fence, with the instruction; open: no fence of the block comes before."""

    at: int
    needs: frozenset[int]
    since: tuple[int, int] | None
    open: bool


@dataclass
class Facts:
    """Of a block. waits: it begins with a wait for products. reads, writes: registers, with the first instruction that does so.
    early: (instruction, register, product) of those that touch what the block has just multiplied. touched: since its last
    fence."""

    waits: bool = False
    fences: bool = False
    reads: dict[int, int] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)
    early: list[tuple[int, int, int]] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    touched: dict[int, int] = field(default_factory=dict)


def registers(operand: Operand) -> Iterator[int]:
    """All that an operand names."""
    match operand:
        case Register(index):
            yield index
        case Negated(register):
            yield register.index
        case Vector(items) | Address(_, _, items):
            for item in items:
                yield from registers(item)
            if isinstance(operand, Address):
                yield from registers(operand.base)
        case Two(first, second):
            yield from registers(first)
            yield from registers(second)
        case _:
            return


def taken(instruction: Instruction) -> tuple[frozenset[int], frozenset[int]]:
    """(registers of the accumulator, registers that hold A)"""
    target, a = instruction.operands[:2]
    return frozenset(registers(target)), frozenset(registers(a)) if isinstance(a, Vector) else frozenset()


class Reader:
    """Reads a block: what each register holds, and who touches it."""

    def __init__(self, first: int) -> None:
        self.facts = Facts()
        self.at = first
        self.holds: dict[int, Roots] = {}
        self.pending: dict[int, frozenset[int]] = {}

    def value(self, register: int) -> Roots:
        """What a register holds."""
        return self.holds.get(register, frozenset({(False, register)}))

    def read(self, instruction: Instruction) -> None:
        """One instruction."""
        name = instruction.opcode
        if name.startswith(PRODUCT):
            self.product(instruction)
        elif name.startswith(FENCE):
            self.facts.fences = True
            self.facts.touched.clear()
        elif name.startswith("mov.") and instruction.guard is None:
            self.move(*instruction.operands)
        elif not name.startswith("wgmma.") and instruction.guard is None:
            self.other(instruction)
        self.at += 1

    def product(self, instruction: Instruction) -> None:
        """A wgmma touches its registers as it may."""
        target, a = taken(instruction)
        facts = self.facts
        touched = next(((facts.touched[one], one) for one in sorted(target | a) if one in facts.touched), None)
        facts.products.append(Product(self.at, target | a, touched, not facts.fences))
        self.pending[self.at] = target | a
        self.holds |= dict.fromkeys(target, frozenset({(True, self.at)}))

    def move(self, target: Operand, source: Operand) -> None:
        """A copy: other names, also of halves and of pairs."""
        given, written = list(registers(source)), list(registers(target))
        if isinstance(source, Immediate):
            self.write(written)
        roots = frozenset().union(*map(self.value, given))
        self.holds |= dict.fromkeys(written, roots)
        for one in given:
            if one in self.facts.touched:
                self.facts.touched |= dict.fromkeys(written, self.facts.touched[one])

    def other(self, instruction: Instruction) -> None:
        """What touches all it names. The first operand is written, unless it is an address, of what has one to write."""
        operands = instruction.operands
        writes = not instruction.opcode.startswith(("bar", "bra", "red."))
        targets = [one for one in operands[:1] if writes and isinstance(one, Register | Vector | Two)]
        written = [index for one in targets for index in registers(one)]
        for operand in operands[len(targets) :]:
            for one in registers(operand):
                self.touch(one)
        self.write(written)
        for one in written:
            self.facts.touched.setdefault(one, self.at)
            self.holds[one] = frozenset()

    def touch(self, register: int) -> None:
        """A read."""
        facts = self.facts
        facts.touched.setdefault(register, self.at)
        for made, root in self.value(register):
            if made:
                facts.early.append((self.at, register, root))
            else:
                facts.reads.setdefault(root, self.at)
                facts.touched.setdefault(root, self.at)

    def write(self, written: list[int]) -> None:
        """Registers that get a value that is no copy of another register's."""
        for one in written:
            self.facts.writes.setdefault(one, self.at)
            self.facts.early += [(self.at, one, at) for at, held in self.pending.items() if one in held]


@lru_cache(maxsize=16)
def facts_of(program: Any) -> tuple[Facts, ...]:
    """Of all blocks; none if nothing is multiplied."""
    code: Kernel = program.kernel
    if not any(one.opcode.startswith(PRODUCT) for one in code.instructions):
        return ()
    found = []
    for block in program.blocks:
        reader = Reader(block.first)
        for instruction in code.instructions[block.first : block.last]:
            reader.read(instruction)
        reader.facts.waits = code.instructions[block.first].opcode.startswith(WAIT)
        found.append(reader.facts)
    return tuple(found)


class Watch:
    """What one warp has multiplied and not waited for. unfenced: blocks it ran since its last fence; fenced: it had one."""

    def __init__(self, warp: Any, reports: Any, facts: tuple[Facts, ...]) -> None:
        self.warp, self.reports, self.facts = warp, reports, facts
        self.unfenced: set[int] = set()
        self.fenced = False

    def enter(self, block: int) -> None:
        """The warp is about to run a block."""
        facts = self.facts[block]
        for at, register, product in facts.early:
            self.tell_early(at, register, product)
        for product in facts.products:
            if product.since is not None:
                self.tell_fence(product, *product.since)
            if product.open:
                self.check_fence(product)
        if facts.fences:
            self.unfenced, self.fenced = {block}, True
        else:
            self.unfenced.add(block)
        if not facts.waits:
            self.waited(block)

    def waited(self, block: int) -> None:
        """What a block does to registers of products from before it, once it has waited if it begins with a wait."""
        warp = self.warp
        if not warp.products_open and not warp.product_groups:
            return
        facts, held = self.facts[block], warp.registers
        tasks = [*warp.products_open, *(task for group in warp.product_groups for task in group)]
        results = {id(task.result): task for task in tasks}
        for register, at in facts.reads.items():
            task = results.get(id(getattr(held[register], "base", None)))
            if task is not None:
                self.tell_early(at, register, task.at)
        instructions = warp.program.kernel.instructions
        for task in tasks:
            for register in frozenset().union(*taken(instructions[task.at])) & facts.writes.keys():
                self.tell_early(facts.writes[register], register, task.at)

    def check_fence(self, product: Product) -> None:
        """Whether blocks since the last fence leave the registers of a product alone."""
        if not self.fenced:
            hint = "no wgmma.fence comes before the warp's first wgmma"
            self.reports.tell("missing-wgmma-fence", self.warp, product.at, self.warp.name, hint, product.at)
        for block in self.unfenced:
            touched = self.facts[block].touched
            for register in product.needs & touched.keys():
                self.tell_fence(product, touched[register], register)

    def tell_early(self, at: int, register: int, product: int) -> None:
        """A register is touched that a product still fills, or reads."""
        name = self.warp.program.kernel.registers[register]
        message = f"{self.warp.name} touches {name} while a wgmma may still be using it: wgmma.wait_group belongs before"
        self.reports.tell("missing-wait-group", self.warp, product, self.warp.name, message, at)

    def tell_fence(self, product: Product, at: int, register: int) -> None:
        """A product takes a register that was touched after the last fence."""
        name = self.warp.program.kernel.registers[register]
        message = f"{self.warp.name} multiplies with {name}, touched by the other: wgmma.fence belongs between"
        self.reports.tell("missing-wgmma-fence", self.warp, at, self.warp.name, message, product.at)
