"""A warp: registers, active lanes, and where diverged lanes meet again."""

from typing import TYPE_CHECKING, Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import LANES
from attnspec.emulator.ptx.flow import EXIT
from attnspec.emulator.report import where

if TYPE_CHECKING:
    from attnspec.emulator.translate.program import Program

BLOCKED_AGAIN, LEFT = -2, -3  # what a block's function gives besides the next block: it blocked; all lanes have exited
RUNNING, WAITING, FINISHED = "running", "waiting", "finished"
NOWHERE = -9
ALL = np.ones(LANES, np.bool_)
ALL.flags.writeable = False


class Warp:
    """index: in its CTA. mask: active lanes, None for all 32; active: how many. at: position of the last act.

    stack: (block, lanes, join) of what runs when the lanes at hand reach `join`, a block. wait: what it waits for, if it does.
    acting: lanes that access memory now, None for all. met: number of the last meeting of its lanes; synced: of the last that
    orders memory, by PTX. No two warps of a CTA share one.
    agent: what an observer remembers of it; watch: what hears of each block that it runs, if anything has to.
    """

    def __init__(self, cta: Any, index: int, program: "Program", lanes: np.ndarray, special: dict[str, Any]) -> None:
        self.cta = cta
        self.machine = cta.machine
        self.index = index
        self.name = cta.machine.names.warp(index, cta.name)
        self.program = program
        self.registers: list[Any] = [None] * len(program.kernel.registers)
        self.special = special
        self.present = lanes
        self.exited = np.zeros(LANES, np.bool_)
        self.mask: Any = None
        self.active = LANES
        self.set_mask(lanes)
        self.block = 0
        self.join = NOWHERE
        self.stack: list[tuple[int, Any, int]] = []
        self.at = 0
        self.wait: Any = None
        self.token: Any = None
        self.timed_out = False
        self.finished = False
        self.priority = 0.0
        self.turns = 0
        self.bulk_open: list[Any] = []
        self.bulk_groups: list[list[Any]] = []
        self.copies_open: list[Any] = []
        self.copy_groups: list[Any] = []
        self.products_open: list[Any] = []
        self.product_groups: list[list[Any]] = []
        self.matrix_pipe: Any = None
        self.tensor_loads: list[Any] = []
        self.tensor_stores: list[Any] = []
        self.unsettled: set[int] = set()
        self.register_count = 0
        self.acting: Any = None
        self.met = self.synced = index + 1 << 40
        self.agent: Any = None
        self.watch: Any = None if self.machine.observer is None else self.machine.observer.watch(self)

    def set_mask(self, lanes: np.ndarray) -> None:
        """Make these the active lanes."""
        self.active = int(np.count_nonzero(lanes))
        self.mask = None if self.active == LANES else lanes

    @property
    def lanes(self) -> np.ndarray:
        """Active lanes as an array."""
        return ALL if self.mask is None else self.mask

    def run(self, limit: int) -> str:
        """Run at most `limit` blocks: RUNNING if it could go on, WAITING if it blocked, FINISHED."""
        program, registers, special = self.program, self.registers, self.special
        functions, counts = program.functions, self.machine.counts
        block = self.block
        while limit > 0:
            limit -= 1
            self.block = block
            full = self.mask is None
            if self.unsettled and self.unsettled & program.exposed[block]:
                self.settle_loads()
            if self.watch is not None and self.wait is None:
                self.watch.enter(block)
            function = functions.get((block, full)) or program.function(block, full)
            following = function(self, registers, self.mask, special)
            if following == BLOCKED_AGAIN:
                return WAITING
            counts[block] += 1
            if following == LEFT:
                self.finished = True
                return FINISHED
            while following == self.join:
                following = self.pop()
            block = following
            if block == EXIT:
                raise KernelFault("no-exit", f"{self.name} runs past the end of the kernel")
        self.block = block
        return RUNNING

    def settle_loads(self, kind: str = "tensor_use") -> None:
        """Registers of tensor memory loads are used: the loads are complete (PTX ISA asks for wait::ld; the hardware waits)."""
        for task in self.tensor_loads:
            task.finish()
        self.tensor_loads.clear()
        self.unsettled.clear()
        if self.machine.observer is not None:
            self.machine.observer.settled(self, kind)

    def diverge(self, taken: np.ndarray, target: int, fall: int, join: int) -> int:
        """Some lanes take the branch: they run first; the others, then all, wait on the stack."""
        lanes = self.lanes
        self.stack.append((join, lanes, self.join))
        if fall != join:
            self.stack.append((fall, lanes & ~taken, join))
        if target == join:
            return self.pop()
        self.join = join
        self.set_mask(taken)
        return target

    def pop(self) -> int:
        """Go on with what the stack holds: its block; LEFT if all lanes have exited."""
        while self.stack:
            block, lanes, join = self.stack.pop()
            lanes = lanes & ~self.exited
            if lanes.any():
                self.set_mask(lanes)
                self.join = join
                return block
        return LEFT

    def leave(self, mask: Any, condition: Any, following: int) -> int:
        """Lanes exit: those of the condition, or all."""
        lanes = self.lanes if condition is None else self.lanes & condition
        self.exited = self.exited | lanes
        rest = self.lanes & ~lanes
        if rest.any():
            self.set_mask(rest)
            return following
        return self.pop()

    def trap(self, mask: Any, condition: Any, following: int) -> int:
        """trap: the kernel gave up."""
        if condition is None or (self.lanes & condition).any():
            raise KernelFault("trap", f"{self.name} executes trap")
        return following

    def meet(self, members: Any = None, orders: bool = True) -> None:
        """Its lanes have met, if they all take part. orders: memory, too."""
        if members is None or not (self.present & ~self.exited & ~members).any():
            self.met += 1
            if orders:
                self.synced = self.met

    def where(self) -> list[str]:
        """For reports: lines that tell of the instruction it stands at."""
        block = self.program.blocks[self.block]
        site = self.machine.site(self.name, block.first)
        return [line.strip() for line in where(site.line, site.text, site.source, "")]
