"""Branches, exit, barriers of threads, fences, register pool. PTX ISA 9.7.12, 9.7.13, 9.7.19.5 (setmaxnreg)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import BLOCKED, LANES, Act, Control, Rule, active, first_active, unsupported
from attnspec.emulator.machine.cta import SM_REGISTERS
from attnspec.emulator.ptx.operands import Immediate, Instruction, Negated

EVERYONE = 0xFFFFFFFF


@dataclass
class Waiting:
    """What a blocked warp waits for. barrier: the thing, with `name` and `state()`; parity: of an mbarrier's phase."""

    barrier: Any
    parity: int | None = None
    phase: int = 0
    may_time_out: bool = False

    def __str__(self) -> str:
        parity = "" if self.parity is None else f", completion of the phase of parity {self.parity}"
        return f"{self.barrier.name}{parity}: {self.barrier.state()}"


def control(kind: str):
    """A rule that ends a block, or does nothing."""
    return lambda instruction: Control(kind)


def barrier(instruction: Instruction) -> Rule:
    """bar.sync, bar.arrive, bar.warp.sync, barrier.sync, barrier.arrive, barrier.cluster.*"""
    words = instruction.parts
    if words[1] == "warp":
        return Act(warp_sync, ((instruction.operands[0], "u32"),))
    if words[1] == "cluster":
        if words[2] == "arrive":
            return Act(cluster_arrive)
        return Act(cluster_wait, blocking=True)
    if "red" in words:
        return barrier_reduction(instruction)
    words = tuple(word for word in words if word not in ("cta", "aligned"))
    reads = tuple((operand, "u32") for operand in instruction.operands)
    if words[1] == "sync":
        return Act(named_sync, reads, blocking=True)
    if words[1] == "arrive":
        return Act(named_arrive, reads)
    raise unsupported(instruction, "this barrier")


def barrier_reduction(instruction: Instruction) -> Rule:
    """barrier.red.popc, .and, .or: a sync that also tells of all threads' predicates"""
    words = instruction.parts
    target, number, *count, value = instruction.operands
    mode = next((word for word in words if word in ("popc", "and", "or")), None)
    if mode is None or isinstance(value, Negated):
        raise unsupported(instruction, "this form")
    reads = ((value, "pred"), (number, "u32"), *((one, "u32") for one in count))
    written = "u32" if mode == "popc" else "pred"
    return Act(partial(named_reduction, mode=mode), reads, ((target, written),), blocking=True)


def named_reduction(warp: Any, mask: Any, value: Any, number: Any, count: Any = None, mode: str = "popc") -> Any:
    """The reduction, once all have come."""
    found = warp.cta.barrier(int(number[first_active(mask)]))
    if warp.token is None:
        lanes = warp.lanes if mask is None else mask
        found.votes[warp] = (int(np.count_nonzero(value & lanes)), int(np.count_nonzero(lanes)))
    if named_sync(warp, mask, number, count) is BLOCKED:
        return BLOCKED
    yes, all = found.result
    return np.full(LANES, yes, np.uint32) if mode == "popc" else np.full(LANES, yes == all if mode == "and" else yes > 0)


def warp_sync(warp: Any, mask: Any, members: Any) -> None:
    """bar.warp.sync: lanes of a warp run together here, so it only has to be reached together."""
    require_convergent(warp, mask, int(members[first_active(mask)]), "bar.warp.sync")
    warp.meet(mask)
    if warp.machine.observer is not None:
        warp.machine.observer.fence(warp, "warp")


def require_convergent(warp: Any, mask: Any, members: int, name: str) -> None:
    """The members of a warp operation must all be active, but for lanes that have exited or never were; and who executes it must
    be a member (PTX ISA: else the behavior is undefined)."""
    warp.meet(mask, orders=False)
    strangers = bits_of(warp.lanes if mask is None else mask) & ~members if members != EVERYONE else 0
    if strangers:
        raise KernelFault("divergent", f"lanes {strangers:#x} execute {name} for lanes {members:#x}, without being of them")
    if mask is None:
        return
    lanes, alive = bits_of(mask), bits_of(warp.present & ~warp.exited)
    if members & alive & ~lanes:
        raise KernelFault("divergent", f"{name} for lanes {members:#x} while only {lanes:#x} are active")


def bits_of(lanes: Any) -> int:
    """Lanes as a number, lane 0 the lowest bit."""
    return int(np.packbits(lanes, bitorder="little").view(np.uint32)[0])


def named_sync(warp: Any, mask: Any, number: Any, count: Any = None) -> Any:
    """Arrive once, then wait for the generation to end."""
    lane = first_active(mask)
    found = warp.cta.barrier(int(number[lane]))
    if warp.token is None:
        warp.token = found.generation
        found.arrive(warp, warp.cta.live_threads() if count is None else int(count[lane]))
    if found.generation == warp.token:
        found.waiters.append(warp)
        warp.wait = Waiting(found)
        return BLOCKED
    warp.token = warp.wait = None
    if warp.machine.observer is not None:
        warp.machine.observer.acquire(warp, found)
    return None


def named_arrive(warp: Any, mask: Any, number: Any, count: Any) -> None:
    """bar.arrive does not wait."""
    lane = first_active(mask)
    warp.cta.barrier(int(number[lane])).arrive(warp, int(count[lane]))


def cluster_arrive(warp: Any, mask: Any) -> None:
    """barrier.cluster.arrive"""
    found = warp.cta.cluster.barrier
    warp.cluster_generation = found.generation
    found.arrive(warp)


def cluster_wait(warp: Any, mask: Any) -> Any:
    """barrier.cluster.wait"""
    found = warp.cta.cluster.barrier
    if found.generation == getattr(warp, "cluster_generation", -1):
        found.waiters.append(warp)
        warp.wait = Waiting(found)
        return BLOCKED
    warp.wait = None
    if warp.machine.observer is not None:
        warp.machine.observer.acquire(warp, found)
    return None


@dataclass
class Pool:
    """The register pool of a CTA's processor, as something to wait for."""

    cta: Any
    wanted: int

    @property
    def name(self) -> str:
        """How reports name it."""
        return f"{self.wanted} registers for setmaxnreg.inc"

    def state(self) -> str:
        """What is left."""
        return f"{self.cta.free_registers} of {SM_REGISTERS} are free"


def registers(instruction: Instruction) -> Rule:
    """setmaxnreg.inc waits for registers, .dec gives them back."""
    count = instruction.operands[0]
    if not isinstance(count, Immediate) or not 24 <= count.value <= 256 or count.value % 8:
        raise unsupported(instruction, "wanted a multiple of 8 from 24 to 256")
    return Act(partial(set_registers, count=count.value, up="inc" in instruction.parts), blocking=True)


def set_registers(warp: Any, mask: Any, count: int, up: bool) -> Any:
    """Change one warp's share of the pool (FACTS C10)."""
    more = (count - warp.register_count) * LANES
    if more and (more > 0) != up:
        held = warp.register_count
        raise KernelFault("register-pool", f"setmaxnreg.{'inc' if up else 'dec'} to {count} by {warp.name}, which has {held}")
    cta = warp.cta
    if more > cta.free_registers:
        cta.register_waiters.append(warp)
        warp.wait = Waiting(Pool(cta, more))
        return BLOCKED
    warp.wait = None
    cta.free_registers -= more
    warp.register_count = count
    if more < 0:
        waiters, cta.register_waiters = cta.register_waiters, []
        for other in waiters:
            warp.machine.scheduler.wake(other)
    return None


def fence(instruction: Instruction) -> Rule:
    """fence, membar and fence.proxy: orderings, heard by the observer."""
    words = instruction.parts
    kind = "mbarrier_init" if "mbarrier_init" in words else "memory"
    if "proxy" in words[1:2] and not any(word.startswith("tensormap") for word in words):
        kind = "proxy"
    return Act(partial(tell_fence, kind=kind))


def tell_fence(warp: Any, mask: Any, kind: str) -> None:
    """A fence does nothing else: memory here is sequentially consistent."""
    if warp.machine.observer is not None:
        warp.machine.observer.fence(warp, kind)


def nothing(instruction: Instruction) -> Rule:
    """No effect on results: launch control of dependent grids, sleeping."""
    return Control("nothing")


def activemask(instruction: Instruction) -> Rule:
    """activemask.b32"""

    def call(warp: Any, mask: Any) -> Any:
        return np.full(LANES, bits_of(warp.lanes if mask is None else mask), np.uint32)

    return Act(call, (), ((instruction.operands[0], "u32"),))


TABLE = {
    "bra": control("branch"),
    "ret": control("exit"),
    "exit": control("exit"),
    "trap": control("trap"),
    "bar": barrier,
    "barrier": barrier,
    "setmaxnreg": registers,
    "fence": fence,
    "membar": fence,
    "griddepcontrol": nothing,
    "nanosleep": nothing,
    "activemask": activemask,
}
__all__ = ["TABLE", "Waiting", "active", "require_convergent"]
