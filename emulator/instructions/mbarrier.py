"""mbarrier objects in shared memory. PTX ISA 9.7.13.15; FACTS C7."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.control import Waiting
from attnspec.emulator.instructions.rule import BLOCKED, LANES, Act, Pure, Rule, address_type, first_active, only
from attnspec.emulator.machine.address import shared_place
from attnspec.emulator.machine.barriers import Mbarrier
from attnspec.emulator.ptx.operands import Address, Immediate, Instruction, Sink

WORDS = ("parity", "release", "acquire", "relaxed", "cta", "cluster", "shared", "shared::cta", "shared::cluster", "b64")
YES = np.ones(LANES, np.bool_)
NO = np.zeros(LANES, np.bool_)


def initialise(instruction: Instruction) -> Rule:
    """mbarrier.init [a], count"""
    address, count = instruction.operands
    return Act(set_up, ((address, address_type(instruction, address)), (count, "u32")))


def set_up(warp: Any, mask: Any, addresses: Any, counts: Any) -> None:
    """Make the object; its 8 bytes are written."""
    for lane in np.flatnonzero(warp.lanes if mask is None else mask):
        cta, offset = shared_place(warp, int(addresses[lane]))
        if offset % 8:
            raise KernelFault("misaligned", f"an mbarrier at offset +{offset - 1024}: wanted a multiple of 8")
        found = cta.shared.barriers.get(offset)
        if found is not None and (found.waiters or found.bytes or found.pending != found.expected):
            raise KernelFault("barrier-in-use", f"{found.name} is set up again while in use: {found.state()}")
        cta.shared.guard(offset, None)
        cta.shared.store(warp, np.array([offset]), np.zeros((1, 1), np.uint64), 8)
        cta.shared.guard(offset, Mbarrier(cta, offset, int(counts[lane])))


def invalidate(instruction: Instruction) -> Rule:
    """mbarrier.inval [a]"""
    (address,) = instruction.operands

    def call(warp: Any, mask: Any, addresses: Any) -> None:
        cta, offset = shared_place(warp, int(addresses[first_active(mask)]))
        cta.mbarrier(offset)
        cta.shared.guard(offset, None)

    return Act(call, ((address, address_type(instruction, address)),))


def arrive(instruction: Instruction) -> Rule:
    """mbarrier.arrive[.expect_tx], .arrive_drop (fewer arrivals from the next phase on) [state,] [a] [, count or bytes]"""
    state, rest = Sink(), list(instruction.operands)
    if not isinstance(rest[0], Address):
        state = rest.pop(0)
    address, *count = rest
    announces, drops = "expect_tx" in instruction.parts, instruction.parts[1] == "arrive_drop"
    number = count[0] if count else Immediate(1)
    reads = ((address, address_type(instruction, address)), (number, "u32"))
    return Act(partial(arrive_lanes, announces=announces, drops=drops), reads, ((state, "u64"),), unit="mbarrier.arrive")


def arrive_lanes(warp: Any, mask: Any, addresses: Any, counts: Any, announces: bool, drops: bool) -> Any:
    """Every active lane arrives; the state is the number of the phase arrived in, and above it what was pending."""
    states = np.zeros(LANES, np.uint64)
    for lane in range(LANES) if mask is None else np.flatnonzero(mask):
        cta, offset = shared_place(warp, int(addresses[lane]))
        cta.shared.require_alive(warp, offset)
        barrier = cta.mbarrier(offset)
        states[lane] = barrier.phase & 0xFFFFFFFF | barrier.pending << 32
        if announces:
            barrier.expect(int(counts[lane]))
        if drops:
            barrier.expected -= 1 if announces else int(counts[lane])
        barrier.arrive(warp, 1 if announces else int(counts[lane]))
    return states


def announce(instruction: Instruction) -> Rule:
    """mbarrier.expect_tx and mbarrier.complete_tx [a], bytes"""
    address, count = instruction.operands
    delivers = instruction.parts[1] == "complete_tx"

    def call(warp: Any, mask: Any, addresses: Any, counts: Any) -> None:
        for lane in range(LANES) if mask is None else np.flatnonzero(mask):
            cta, offset = shared_place(warp, int(addresses[lane]))
            barrier = cta.mbarrier(offset)
            if delivers:
                barrier.complete(warp, int(counts[lane]))
            else:
                barrier.expect(int(counts[lane]))

    return Act(call, ((address, address_type(instruction, address)), (count, "u32")))


def wait(instruction: Instruction) -> Rule:
    """mbarrier.try_wait and test_wait, by parity or by state, to a predicate. try_wait may suspend, test_wait does not."""
    target, address, phase, *_ = instruction.operands
    tries = instruction.parts[1] == "try_wait"
    parity = "parity" in instruction.parts
    reads = ((address, address_type(instruction, address)), (phase, "u32" if parity else "u64"))
    call = partial(wait_lanes, parity=parity, tries=tries)
    return Act(call, reads, ((target, "pred"),), blocking=tries, unit="mbarrier.try_wait")


def wait_lanes(warp: Any, mask: Any, addresses: Any, phases: Any, parity: bool, tries: bool) -> Any:
    """True once the phase has completed; a try_wait that was suspended in vain gives False."""
    lane = first_active(mask)
    cta, offset = shared_place(warp, int(addresses[lane]))
    if cta is not warp.cta:
        raise KernelFault("wrong-space", f"{warp.name} waits on an mbarrier of {cta.name}: only its own CTA's can be waited on")
    barrier = cta.mbarrier(offset)
    wanted = int(phases[lane]) & 1
    if warp.wait is not None and barrier.phase - warp.wait.phase > 1:
        missed = barrier.phase - warp.wait.phase
        raise KernelFault("barrier-overrun", f"{barrier.name} completed {missed} phases while {warp.name} waited for one")
    complete = barrier.is_complete(wanted) if parity else barrier.phase > int(phases[lane]) & 0xFFFFFFFF
    if complete or not tries or warp.timed_out:
        warp.wait = None
        warp.timed_out = False
        if complete and warp.machine.observer is not None:
            warp.machine.observer.acquire(warp, barrier)
        return YES if complete else NO
    barrier.waiters.append(warp)
    warp.wait = Waiting(barrier, wanted if parity else None, barrier.phase, True)
    return BLOCKED


def pending(instruction: Instruction) -> Rule:
    """mbarrier.pending_count d, state: arrivals that were pending when the state was taken."""
    target, state = instruction.operands
    return Pure("({0} >> T_u64(32)).astype(T_u32)", ((state, "u64"),), ((target, "u32"),))


def checked(rule: Callable[[Instruction], Rule]) -> Callable[[Instruction], Rule]:
    """A rule that refuses words it does not know."""

    def make(instruction: Instruction) -> Rule:
        extra = ("noComplete",) if "arrive" in instruction.parts[1] else ()
        only(instruction, instruction.parts[1], "expect_tx", *extra, *WORDS)
        return rule(instruction)

    return make


RULES = {
    "mbarrier.init": initialise,
    "mbarrier.inval": invalidate,
    "mbarrier.arrive": arrive,
    "mbarrier.arrive_drop": arrive,
    "mbarrier.expect_tx": announce,
    "mbarrier.complete_tx": announce,
    "mbarrier.try_wait": wait,
    "mbarrier.test_wait": wait,
    "mbarrier.pending_count": pending,
}
TABLE = {name: checked(rule) for name, rule in RULES.items()}
