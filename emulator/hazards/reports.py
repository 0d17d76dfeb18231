"""What a hazard is called, and how it is told: both agents, with the instruction and the source line of each."""

import re
from bisect import bisect
from typing import Any

import numpy as np
from attnspec.emulator.hazards.clocks import ORDERED, Agent, Crowd
from attnspec.emulator.hazards.ledger import POSITION, SHIFT, Found
from attnspec.emulator.hazards.places import HALF, HALVES, UNIT, WORD, clash
from attnspec.emulator.machine.shared_memory import RESERVED, SharedMemory
from attnspec.emulator.names import Names

REGISTER = re.compile(r"%\w+")
WAITS = {
    "tcgen05.ld": ("missing-wait-ld", "it may still be reading: tcgen05.wait::ld belongs before the hand-over"),
    "tcgen05.st": ("missing-wait-st", "it may not have written yet: tcgen05.wait::st belongs before the hand-over"),
    "wgmma.mma_": ("missing-wait-group", "it may still be reading: wgmma.wait_group belongs before the reuse or the hand-over"),
    "cp.async": ("missing-wait-group", "it may not have written yet: cp.async.wait_group belongs before"),
    "cp.async.bulk": ("missing-wait-group", "it may still be reading: cp.async.bulk.wait_group.read belongs before the reuse"),
    "cp.reduce.async.bulk": (
        "missing-wait-group",
        "it may still be reading: cp.async.bulk.wait_group.read belongs before the reuse",
    ),
}


class Reports:
    """Told once: a kind of hazard between two basic blocks by the same two opcodes, for accesses come unrolled."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.told: set[tuple[str, Any, Any]] = set()
        self.starts = [block.first for block in machine.program.blocks]

    def opcode(self, at: int) -> str:
        """Of an instruction."""
        return self.machine.program.kernel.instructions[at].opcode

    def kin(self, at: int) -> tuple[int, str]:
        """Block and opcode of an instruction."""
        return bisect(self.starts, at), self.opcode(at)

    def tell(self, kind: str, actor: Any, at: int, name: str, message: str, here: int | None = None) -> None:
        """Add a fault with its other side. here: where it is, if not where the actor stands."""
        key = (kind, self.kin(actor.at if here is None else here), self.kin(at))
        if key in self.told:
            return
        self.told.add(key)
        self.machine.fault(kind, message, actor, self.machine.site(name, at), here)

    def conflict(self, actor: Any, agent: Agent, memory: Any, write: bool, wrote: bool, found: Found) -> None:
        """Two accesses of shared or tensor memory without order."""
        place, number, stamp = found
        at, epoch = stamp & POSITION, stamp >> SHIFT
        shared = isinstance(memory, SharedMemory)
        where = f"shared memory {memory.show(place * WORD)}" if shared else tensor_place(place, memory.names)
        kind, why = self.classify(agent, number, epoch, self.opcode(at), wrote, shared)
        issuer = getattr(actor, "issuer", None)
        if kind == "race-shared" and wrote and not write and issuer is not None and column_of_warp(issuer) == number:
            # The warp that issued what reads here has written since.
            kind, why = WAITS.get(family_of(self.opcode(actor.at)), (kind, why))
        verbs = f"{'writes' if write else 'reads'} {where} of {memory.name}, {'written' if wrote else 'read'} by the other"
        since = self.filled(actor, memory, place * WORD - RESERVED if shared else place // HALVES)
        self.tell(kind, actor, at, self.name(agent.crowd, number, epoch), f"{actor.name} {verbs}: {why}{since}")

    def filled(self, actor: Any, memory: Any, place: int) -> str:
        """In which step, or work tile, what lies at a place was last filled, where names tell."""
        cta = next((one for one in actor.cta.cluster.ctas if memory in (one.shared, one.tensor)), None)
        names = memory.names.shared if isinstance(memory, SharedMemory) else memory.names.tensor
        found = []
        if cta is None:
            return ""
        for part in names:
            barrier = cta.shared.barriers.get(RESERVED + part.full) if part.full is not None else None
            if part.start <= place < part.end and barrier is not None and barrier.signal is not None and barrier.phase:
                found.append(f"{part.name} in {barrier.signal.during(barrier.phase - 1)}")
        return f"; last full: {', '.join(found)}" if found else ""

    def classify(self, agent: Agent, number: int, epoch: int, opcode: str, wrote: bool, shared: bool) -> tuple[str, str]:
        """The stable name, and the reason."""
        if agent.knows(number, epoch, ORDERED):
            if shared:
                return (
                    "missing-proxy-fence",
                    "ordered, but no fence.proxy.async makes generic writes visible to the asynchronous unit",
                )
            return (
                "missing-tensor-fence",
                "ordered, but without tcgen05.fence::before_thread_sync and ::after_thread_sync between",
            )
        issue = agent.crowd.columns[number].issues.get(epoch)
        family = family_of(opcode)
        awaited = family in WAITS and (family == "cp.async" or not (shared and wrote))
        if issue is not None and agent.knows(issue.column, issue.epoch) and awaited:
            return WAITS[family]
        return ("race-shared" if shared else "race-tensor"), "nothing orders the two"

    def name(self, crowd: Crowd, number: int, epoch: int) -> str:
        """Of an agent, from its column."""
        if number in crowd.agents:
            return crowd.agents[number].name
        issues = crowd.columns[number].issues
        issue = issues.get(epoch) or issues.get(epoch - 1)
        return issue.name if issue is not None else "a task"

    def conflict_global(self, actor: Any, agent: Agent, region: Any, write: bool, found: Found, crowds: dict[Any, Any]) -> None:
        """Two accesses of global memory without order."""
        place, who, stamp = found
        at, number = stamp & POSITION, who & 0xFFFFFF
        crowd = next((one for one in crowds.values() if one.number == who >> 24), None)
        name = f"an agent of cluster {who >> 24}, which has ended"
        if crowd is not None:
            name = self.name(crowd, number, stamp >> SHIFT)
        kind, why = "race-global", "nothing orders the two"
        if crowd is agent.crowd and agent.knows(number, stamp >> SHIFT, ORDERED):
            kind, why = (
                "missing-proxy-fence",
                "ordered, but no fence.proxy.async makes generic writes visible to the asynchronous unit",
            )
        where = f"{region.name}, byte {place * UNIT + region.base - region.start},"
        self.tell(kind, actor, at, name, f"{actor.name} {'writes' if write else 'reads'} {where} touched by the other: {why}")

    def lanes(self, actor: Any, memory: Any, places: Any, values: Any) -> None:
        """Two lanes of one instruction write different values (count, lanes) to one place."""
        pair = clash(places, values)
        key = ("race-lanes", self.kin(actor.at), None)
        if pair is None or key in self.told:
            return
        self.told.add(key)
        active = np.flatnonzero(actor.lanes) if hasattr(actor, "lanes") else np.arange(len(places))
        one, two = (int(active[at]) if len(active) == len(places) else at for at in pair)
        place = places[pair[0]]
        where = f"shared memory {memory.show(place)} of {memory.name}" if isinstance(memory, SharedMemory) else f"{int(place):#x}"
        message = f"lanes {one} and {two} of {actor.name} write different values to {where} at once: either may stay"
        self.machine.fault("race-lanes", message, actor)

    def barrier(self, kind: str, actor: Any, agent: Agent, barrier: Any, maker: Agent, why: str) -> None:
        """An mbarrier that is not set up as far as its user can know; told once for a kind of use, of many barriers."""
        key = (kind, self.kin(actor.at), None)
        if key in self.told:
            return
        self.told.add(key)
        self.machine.fault(kind, f"{actor.name} uses {barrier.name}, set up by {maker.name}: {why}", actor)

    def used(self, warp: Any, load: Agent) -> None:
        """Registers of a tcgen05.ld are used while it may be under way, as PTX has it."""
        user = self.user(warp, load.at)
        if user is not None:
            message = f"{warp.name} uses registers of a tcgen05.ld that no tcgen05.wait::ld follows"
            self.tell("missing-wait-ld", warp, load.at, load.name, message, user)

    def user(self, warp: Any, load: int) -> int | None:
        """The first instruction of a warp's block that has a register of a load, and does more than copy it, if no wait comes
        before; the warp is about to run the block."""
        block, instructions = self.machine.program.blocks[warp.block], self.machine.program.kernel.instructions
        loaded = registers_of(instructions[load].text.partition("[")[0])
        for at in range(load + 1 if block.first <= load < block.last else block.first, block.last):
            if instructions[at].opcode.startswith("tcgen05.wait::ld"):
                return None
            named = registers_of(instructions[at].text)
            if loaded & named and not instructions[at].opcode.startswith("mov."):
                return at
            loaded |= named if loaded & named else set()
        return None

    def unread(self, warp: Any, task: Any) -> None:
        """A warp leaves while its bulk store may still read shared memory."""
        hint = "cp.async.bulk.wait_group.read belongs before the exit"
        message = f"{warp.name} exits while its {task.name} may still be reading shared memory: {hint}"
        self.tell("missing-wait-group", task, task.at, warp.name, message)


def family_of(opcode: str) -> str:
    """Asynchronous instructions that one kind of wait is for."""
    if opcode.startswith(("cp.async.ca", "cp.async.cg")):
        return "cp.async"
    return "cp.reduce.async.bulk" if opcode.startswith("cp.reduce") else opcode[: 13 if opcode.startswith("cp.") else 10]


def column_of_warp(warp: Any) -> int | None:
    """Whose deeds its are."""
    return warp.agent.column.number if warp.agent is not None else None


def tensor_place(place: int, names: Names) -> str:
    """Column and lanes."""
    column, lane = place // HALVES, place % HALVES * HALF
    return f"tensor memory column {column}{names.in_tensor(column)}, lanes {lane} to {lane + HALF - 1}"


def registers_of(text: str) -> set[str]:
    """Registers that an instruction names."""
    return set(REGISTER.findall(text))
