"""A grid of several clusters on several cores: clusters that cannot wait for each other run in processes of their own.

A process is forked from this one, with all its memory; what it changed in the tensors, counted and found comes back through a
pipe. numpy's operations are too short to share cores by threads: Python's lock is held most of the time.
"""

import os
import pickle
import signal
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.hazards.apart import Touched, tell_races, touched
from attnspec.emulator.hazards.memory_order import ordering_of
from attnspec.emulator.machine.machine import Machine
from attnspec.emulator.report import Fault

WORTH = 0.4  # seconds of work that is left, below which a process costs more than it spares
ORDERING = ("atom", "red", "multimem", "cp.reduce", "clusterlaunchcontrol", "griddepcontrol", "membar")


@dataclass(frozen=True)
class Share:
    """What a process did. counts: of blocks; changed: of each region, (packed mask of its changed bytes, their values)."""

    counts: tuple[int, ...]
    faults: tuple[Fault, ...]
    changed: tuple[tuple[bytes, bytes], ...]
    touched: dict[int, Touched]


def is_independent(machine: Machine) -> bool:
    """Whether nothing in the kernel can order two clusters, or hand work to them as they come."""
    return not any(orders(one.opcode) for one in machine.program.kernel.instructions)


def orders(opcode: str) -> bool:
    """Whether an instruction takes part in order through global memory."""
    if opcode.startswith(("ld", "st", "red.async")):
        return ordering_of(opcode).strong and "shared" not in opcode
    return opcode.startswith(ORDERING)


def cores() -> int:
    """Processors that this process may use; 1 where processes cannot be forked."""
    if not hasattr(os, "fork"):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_grid(machine: Machine, workers: int | None) -> None:
    """Run all clusters. workers: processes at most; None: as many as there are cores, if the work is worth it.

    By itself the first cluster runs alone, and what it took says what the others will.
    """
    clusters = list(range(machine.cluster_count))
    most = cores() if workers is None else workers
    if most < 2 or len(clusters) < 2 or not is_independent(machine):
        machine.run()
        return
    if workers is None:
        start = time.perf_counter()
        machine.run(clusters[:1])
        clusters = clusters[1:]
        if machine.ended:
            return
        if (time.perf_counter() - start) * len(clusters) < WORTH:
            machine.run(clusters)
            return
    most = min(most, len(clusters))
    run_apart(machine, [clusters[at::most] for at in range(most)])


def run_apart(machine: Machine, shares: Sequence[Sequence[int]]) -> None:
    """The first share here, each other one in a process; all of it ends up in this machine."""
    started = [start(machine, share) for share in shares[1:]]
    try:
        machine.run(shares[0])
        seen = [deeds(machine, range(machine.cluster_count))]
        for _, descriptor in started:
            found = receive(descriptor)
            take(machine, found)
            for earlier in seen:
                tell_races(machine, earlier, found.touched)
            seen.append(found.touched)
    finally:
        for pid, descriptor in started:
            os.close(descriptor)
            os.kill(pid, signal.SIGKILL)  # one that is not done is not wanted any more
            os.waitpid(pid, 0)


def deeds(machine: Machine, clusters: Sequence[int]) -> dict[int, Touched]:
    """What clusters did to global memory; nothing without a detector."""
    return touched(machine.observer.regions, clusters) if machine.observer is not None else {}


def start(machine: Machine, share: Sequence[int]) -> tuple[int, int]:
    """Fork a process that runs some clusters. Returns its number and the end of the pipe that it will write to."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads; the child needs none
        pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        try:
            result: Any = work(machine, share)
        except BaseException as error:
            result = error
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(packed(result))
    finally:
        os._exit(0)  # nothing of the parent's is to be flushed or cleaned up twice


def packed(result: Any) -> bytes:
    """A share, or an exception, as bytes."""
    try:
        return pickle.dumps(result)
    except Exception:
        return pickle.dumps(EmulatorError(f"a process that ran clusters failed: {type(result).__name__}: {result}"))


def work(machine: Machine, share: Sequence[int]) -> Share:
    """In a process of its own: run, and say what is new."""
    regions = [(region, region.units[1].copy()) for region in machine.memory.regions]
    counts, faults = list(machine.counts), len(machine.faults)
    machine.run(share)
    changed = []
    for region, before in regions:
        mask = region.units[1] != before
        changed.append((np.packbits(mask).tobytes(), region.units[1][mask].tobytes()))
    more = tuple(now - then for now, then in zip(machine.counts, counts, strict=True))
    return Share(more, tuple(machine.faults[faults:]), tuple(changed), deeds(machine, share))


def receive(descriptor: int) -> Share:
    """What a process sends before it ends."""
    with os.fdopen(os.dup(descriptor), "rb") as pipe:
        data = pipe.read()
    if not data:
        raise EmulatorError("a process that ran clusters ended before it was done: was there enough memory?")
    found = pickle.loads(data)
    if isinstance(found, BaseException):
        raise found
    return found


def take(machine: Machine, found: Share) -> None:
    """Make another process's results this one's."""
    machine.counts[:] = [one + more for one, more in zip(machine.counts, found.counts, strict=True)]
    for fault in found.faults:
        machine.add(fault)
    for region, (mask, values) in zip(machine.memory.regions, found.changed, strict=True):
        bytes = region.units[1]
        bytes[np.unpackbits(np.frombuffer(mask, np.uint8), count=len(bytes)).astype(np.bool_)] = np.frombuffer(values, np.uint8)
