"""A kernel as Python functions, one a basic block, made when first run and kept for the process."""

import hashlib
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from attnspec.emulator.instructions.lookup import begins_block, rule_of
from attnspec.emulator.instructions.rule import BLOCKED, DTYPES, LANES, items_of
from attnspec.emulator.machine.warp import LEFT
from attnspec.emulator.numerics import approximations
from attnspec.emulator.ptx.flow import Block, blocks
from attnspec.emulator.ptx.operands import Kernel, Register, Two
from attnspec.emulator.ptx.parser import parse
from attnspec.emulator.translate import arithmetic, bits, half, narrow
from attnspec.emulator.translate.build import Builder, Built
from attnspec.emulator.translate.emit import Emitter, together, unsigned
from attnspec.emulator.translate.values import LiveIn, Result, parts_of

BlockFunction = Callable[[Any, list[Any], Any, dict[str, Any]], int]


def undefined(warp: Any, index: int, dtype: Any) -> Any:
    """Rubbish, for a register that no instruction has written is read; told once for a block, and the run goes on."""
    machine, kernel = warp.machine, warp.program.kernel
    block = warp.program.blocks[warp.block]
    name = re.compile(rf"{re.escape(kernel.registers[index])}\b")
    here = {at: kernel.instructions[at] for at in range(block.first, block.last)}
    warp.at = next((at for at, one in here.items() if name.search(one.text)), block.first)
    told = {(one.line, one.text) for one in machine.faults if one.kind == "uninitialised-register"}
    if "uninitialised" in machine.checks and not any((one.line, one.text) in told for one in here.values()):
        machine.fault("uninitialised-register", f"{kernel.registers[index]} is read before it is written", warp)
    return np.full(LANES * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype)


@dataclass(eq=False)
class Program:
    """functions: by (block, whether all lanes are active); kept: registers that some block takes from before it; exposed: those
    of each block."""

    kernel: Kernel
    blocks: tuple[Block, ...]
    namespace: dict[str, Any]
    kept: frozenset[int]
    built: tuple[Built, ...]
    exposed: tuple[frozenset[int], ...]
    functions: dict[tuple[int, bool], BlockFunction] = field(default_factory=dict)
    interned: dict[Hashable, str] = field(default_factory=dict)

    def function(self, block: int, full: bool) -> BlockFunction:
        """The function of a block for a full warp, or for one with some lanes off."""
        found = self.functions.get((block, full))
        if found is None:
            found = self.functions[block, full] = self.compile(block, full)
        return found

    def compile(self, index: int, full: bool) -> BlockFunction:
        """Translate a block."""
        text = self.text(index, full)
        name = f"block_{index}{'' if full else '_part'}"
        exec(compile(text, f"<{self.kernel.name[:40]} {name}>", "exec"), self.namespace)
        return self.namespace[name]

    def text(self, index: int, full: bool) -> str:
        """The Python text of a block's function."""
        block, built = self.blocks[index], self.built[index]
        emitter = Emitter(self.namespace, self.interned)
        emitter.body(built)
        condition = None if built.condition is None else emitter.value(built.condition, "pred")
        stores = self.stores(built, emitter, full)
        lines = emitter.lines + stores + ending(block, built, condition)
        name = f"block_{index}{'' if full else '_part'}"
        return f"def {name}(w, R, m, S):\n    " + "\n    ".join(lines) + "\n"

    def stores(self, built: Built, emitter: Emitter, full: bool) -> list[str]:
        """Keep what other blocks may read."""
        stores: list[str] = []
        for index, value in built.registers.items():
            if index not in self.kept:
                continue
            if isinstance(value, LiveIn):
                # Copied as it is: a copy of an undefined register is no fault.
                text = emitter.names.get((value, unsigned(value.bits))) or emitter.bind("v", f"R[{value.index}]")
            else:
                held = any(part.operation in emitter.held for part in parts_of(value) if isinstance(part, Result))
                if held and not isinstance(value, Result):
                    # A packed register is a copy: what it is made of must have arrived.
                    emitter.lines.append('w.settle_loads("tensor_load")')
                    emitter.held.clear()
                text = emitter.value(value, unsigned(value.bits))
            if any(part.operation in emitter.held for part in parts_of(value) if isinstance(part, Result)):
                stores.append(f"w.unsettled.add({index})")
            stores.append(f"R[{index}] = {text}" if full else f"R[{index}] = merge(m, {text}, R[{index}])")
        return stores


def ending(block: Block, built: Built, condition: str | None) -> list[str]:
    """The last lines of a block's function: which block comes next."""
    after = block.index + 1
    if built.ending == "fall":
        return [f"return {block.successors[0]}"]
    if built.ending in ("exit", "trap"):
        call = f"w.{'leave' if built.ending == 'exit' else 'trap'}"
        line = f"w.at = {built.ending_at}"
        return [line, f"return {call}(m, {condition}, {after if condition else LEFT})"]
    taken = block.successors[0]
    if condition is None:
        return [f"return {taken}"]
    fall = block.successors[1]
    return [
        f"c = {condition} if m is None else {condition} & m",
        "n = count_nonzero(c)",
        "if n == 0: return " + str(fall),
        "if n == w.active: return " + str(taken),
        f"return w.diverge(c, {taken}, {fall}, {block.join})",
    ]


@lru_cache(maxsize=64)
def _programs(digest: str, text: str) -> dict[str, Program]:
    return {kernel.name: program_of(kernel) for kernel in parse(text)}


def programs(text: str) -> dict[str, Program]:
    """The kernels of a PTX text by name, translated once a process."""
    return _programs(hashlib.sha256(text.encode()).hexdigest(), text)


def written(kernel: Kernel) -> frozenset[int]:
    """Registers that some instruction may write: those of first operands, be they targets or not."""
    found: set[int] = set()
    for instruction in kernel.instructions:
        for operand in instruction.operands[:1]:
            first = (operand.first, operand.second) if isinstance(operand, Two) else items_of(operand)
            found.update(item.index for item in first if isinstance(item, Register))
    return frozenset(found)


def program_of(kernel: Kernel) -> Program:
    """Check that every instruction is known, cut the kernel into blocks, find the registers that cross them."""
    cut = blocks(kernel, begins_block)
    targets = written(kernel)
    built = tuple(Builder(rule_of, targets).block(kernel.instructions[block.first : block.last], block.first) for block in cut)
    exposed = tuple(frozenset(each.exposed) for each in built)
    kept = frozenset().union(*exposed)
    namespace: dict[str, Any] = {f"T_{name}": dtype for name, dtype in DTYPES.items()}
    namespace |= {
        "np": np,
        "BLOCKED": BLOCKED,
        "undefined": undefined,
        "together": together,
        "count_nonzero": np.count_nonzero,
        "A": arithmetic,
        "B": bits,
        "H": half,
        "N": narrow,
        "P": approximations,
    }
    namespace |= {name: getattr(arithmetic, name) for name in ("merge", "join8", "join16", "join32", "join64")}
    return Program(kernel, cut, namespace, kept, built, exposed)
