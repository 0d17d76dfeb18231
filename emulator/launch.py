"""The two ways in: a compiled CuTe-DSL function with its host code, or PTX text with a parameter block."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.hazards.detector import Detector
from attnspec.emulator.machine.global_memory import GlobalMemory, Region, region
from attnspec.emulator.machine.layout import layout_of
from attnspec.emulator.machine.machine import Launch, Machine
from attnspec.emulator.names import NO_NAMES, Names
from attnspec.emulator.numerics.approximations import using
from attnspec.emulator.numerics.modes import NUMERICS, Numerics
from attnspec.emulator.report import Launched, Report
from attnspec.emulator.translate.program import Program, programs
from attnspec.emulator.workers import run_grid

CHECKS = frozenset({"uninitialised", "hazards"})  # what "all" means
PEDANTIC = frozenset({"tensor-fences", "warp-sync", "wait-ld"})  # what PTX asks for and the hardware does without: only by name


def launch(
    compiled: Any,
    *arguments: Any,
    seed: int | None = None,
    checks: str | Iterable[str] = "all",
    ptx: str | None = None,
    numerics: str = "fast",
    names: Names = NO_NAMES,
    workers: int | None = None,
) -> Report:
    """Run what `cute.compile` returned, host code and all, on CPU tensors.

    arguments: those of the compiled function; tensors stand for device memory, and nothing else may be touched. The stream may be
    left out. seed: of the timing; None is program order. checks: "all", "none" or names of `CHECKS`.
    ptx: another text for the same kernels, to see what a changed one does; None is the function's own. numerics: "fast" sums
    products of matrices by the BLAS; "faithful" sums as the tensor core does, and takes an H200's ex2, lg2, rcp and rsqrt.
    names: what reports call the kernel's warps, buffers, barriers and lines. workers: processes that share the clusters, where
    nothing can order those; None: as many as there are cores, if the grid is worth it.
    """
    from attnspec.emulator.host import ptx_of, record

    found = programs(ptx_of(compiled) if ptx is None else ptx)
    sizes = {name: tuple(one.size for one in program.kernel.parameters) for name, program in found.items()}
    launches = []
    for call in record(compiled, arguments, sizes):
        program = found[call.kernel]
        raw = pack(program, call.arguments, [])
        launches.append((program, Launch(call.grid, call.block, call.cluster, call.shared_bytes, raw, registers=call.registers)))
    regions = tuple(
        region_of(one, name)
        for position, given in enumerate(arguments)
        for name, one in tensors_of(given, names.argument(position))
    )
    return run(launches, GlobalMemory(regions), seed, checks_of(checks), numerics_of(numerics), names, workers)


def tensors_of(given: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Tensors of an argument, those in tuples too, with the names that reports call them by."""
    if hasattr(given, "data_ptr"):
        yield name, given
    elif isinstance(given, list | tuple):
        for part, one in enumerate(given):
            yield from ((f"{name}, part {part}", tensor) for _, tensor in tensors_of(one, name))


def checks_of(checks: str | Iterable[str]) -> frozenset[str]:
    """The names of the checks that are on: "all", "none", or some names."""
    if checks == "all":
        return CHECKS
    if checks == "none":
        return frozenset()
    chosen = frozenset([checks] if isinstance(checks, str) else checks)
    if chosen - CHECKS - PEDANTIC:
        raise EmulatorError(
            f"checks: {', '.join(sorted(chosen - CHECKS))}; known are all, none, {', '.join(sorted(CHECKS | PEDANTIC))}"
        )
    return chosen


def numerics_of(numerics: str) -> Numerics:
    """How tensor cores sum, and what stands for approximations."""
    if numerics not in NUMERICS:
        raise EmulatorError(f"numerics: {numerics!r}; known are {', '.join(NUMERICS)}")
    return NUMERICS[numerics]


def run_ptx(
    text: str,
    parameters: Sequence[Any] = (),
    *,
    kernel: str | None = None,
    grid: Sequence[int] = (1,),
    block: Sequence[int] | None = None,
    cluster: Sequence[int] = (1,),
    shared_bytes: int = 0,
    seed: int | None = None,
    checks: str | Iterable[str] = "all",
    numerics: str = "fast",
    names: Names = NO_NAMES,
    workers: int | None = None,
) -> Report:
    """Run a kernel of a PTX text.

    parameters: one a `.param`, in order: an int or float, bytes, or an array or CPU tensor, whose memory stands for the
    device's and whose address is passed. kernel: its name, if the text has several. block: threads of a CTA, if the kernel
    has no `.reqntid`. seed: of the timing; None is program order. numerics, names, workers: as of `launch`.
    """
    found = programs(text)
    if kernel is None and len(found) != 1:
        raise EmulatorError(f"kernel: the text has {len(found)}: {', '.join(found)}")
    program = found[kernel] if kernel is not None else next(iter(found.values()))
    regions: list[Region] = []
    raw = pack(program, parameters, regions)
    threads = program.kernel.threads or three(block or (32,))
    launch = Launch(three(grid), three(block) if block else threads, three(cluster), shared_bytes, raw)
    return run([(program, launch)], GlobalMemory(tuple(regions)), seed, checks_of(checks), numerics_of(numerics), names, workers)


def three(numbers: Sequence[int]) -> tuple[int, int, int]:
    """(x, y, z), 1 where not given."""
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def pack(program: Program, parameters: Sequence[Any], regions: list[Region]) -> bytes:
    """The parameter block; memory that parameters point to is added to `regions`."""
    layout = layout_of(program.kernel, 0)
    declared = program.kernel.parameters
    if len(parameters) != len(declared):
        raise EmulatorError(f"{len(parameters)} parameters given, {program.kernel.name} takes {len(declared)}")
    raw = bytearray(layout.parameter_bytes)
    for given, one in zip(parameters, declared, strict=True):
        start = layout.parameters[one.name]
        if isinstance(given, bytes):
            data = given
        elif isinstance(given, float):
            data = np.float32(given).tobytes()
        elif isinstance(given, int | np.integer):
            data = (int(given) % (1 << 8 * one.size)).to_bytes(one.size, "little")
        else:
            memory = region_of(given, one.name)
            regions.append(memory)
            data = memory.start.to_bytes(8, "little")
        raw[start : start + len(data)] = data
    return bytes(raw)


def region_of(given: Any, name: str) -> Region:
    """The memory of a numpy array or a CPU tensor, from its first element to its last."""
    if isinstance(given, np.ndarray):
        last = sum((size - 1) * stride for size, stride in zip(given.shape, given.strides, strict=True))
        return region(name, given.ctypes.data, last + given.itemsize if given.size else 0, given)
    if given.device.type != "cpu":
        raise EmulatorError(f"{name}: a tensor on {given.device}; the emulator takes CPU tensors as device memory")
    last = sum((size - 1) * stride for size, stride in zip(given.shape, given.stride(), strict=True))
    return region(name, given.data_ptr(), (last + 1) * given.element_size() if given.numel() else 0, given)


def run(
    launches: Sequence[tuple[Program, Launch]],
    memory: GlobalMemory,
    seed: int | None,
    checks: frozenset[str],
    numerics: Numerics,
    names: Names = NO_NAMES,
    workers: int | None = None,
) -> Report:
    """Grids one after the other; the first that a fault ends is the last to run."""
    start = time.perf_counter()
    done: list[Launched] = []
    faults = []
    for program, launch in launches:
        machine = Machine(program, launch, memory, seed, checks, multiply=numerics.multiply, names=names.of(program.kernel.name))
        watch(machine)
        with using(numerics.approximations):
            run_grid(machine, workers)
        shape = (launch.grid, launch.cluster, launch.threads, launch.shared_bytes)
        done.append(Launched(program.kernel.name, *shape, counts(machine), lines(machine)))
        faults += machine.faults
        if machine.ended:
            break
    return Report(tuple(done), tuple(faults), time.perf_counter() - start, seed)


def watch(machine: Machine) -> None:
    """Put a detector of hazards on a machine whose checks ask for one; hazards do not end a run."""
    asked = machine.checks & (PEDANTIC | {"hazards"})
    machine.memory.observer = machine.observer = Detector(machine) if asked else None


def lines(machine: Machine) -> frozenset[int]:
    """Lines of the text that were run."""
    ran = [block for block, times in zip(machine.program.blocks, machine.counts, strict=True) if times]
    return frozenset(one.line for block in ran for one in machine.program.kernel.instructions[block.first : block.last])


def counts(machine: Machine) -> Mapping[str, int]:
    """Executed warp instructions by opcode."""
    found: dict[str, int] = {}
    for block, times in zip(machine.program.blocks, machine.counts, strict=True):
        if times:
            for instruction in machine.program.kernel.instructions[block.first : block.last]:
                found[instruction.opcode] = found.get(instruction.opcode, 0) + times
    return found
