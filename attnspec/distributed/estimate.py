"""What a plan costs on a machine: seconds of work and of links, step by step. It picks layouts and strategies, and draws scaling.

A model: sustained rates, no contention but of a rank's own link. Ratios of its answers are worth more than the answers.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnspec.distributed.layout import SequenceLayout, contiguous, striped, zigzag
from attnspec.distributed.load import Load, Widths, balanced, load_of_layouts, runs_of
from attnspec.distributed.visible import TILE, Sight

Direction = Literal["forward", "backward"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Machine:
    """A cluster. forward, backward: sustained flop/s of attention on a GPU, useful products alone (2 and 5 a tile).

    near, far: bytes/s of a GPU, each way, within a node and beyond; node: GPUs of one; latency: seconds a message. call: seconds
    that a forward's kernel call takes beyond its work, a backward's twice that: launches, joining, processors that have nothing
    left while the last tile is worked on. On two H200s what a ring did not hide was some 0.6 ms a part, both ways together.
    """

    name: str
    forward: float
    backward: float
    near: float
    far: float
    node: int
    latency: float = 10e-6
    call: float = 200e-6


# Sustained rates as published for 16k and more at head_dim 128: FlashAttention-3 (H100; an H200 has the same chip) and 4 (B200).
H200 = Machine("H200, 8 a node, 400 Gb/s a GPU", 650e12, 500e12, 450e9, 50e9, 8)
B200 = Machine("B200, 8 a node, 400 Gb/s a GPU", 1600e12, 1100e12, 900e9, 50e9, 8)
B200_RACK = Machine("B200, 72 a rack, 400 Gb/s a GPU", 1600e12, 1100e12, 900e9, 50e9, 72)
MACHINES = {"h200": H200, "b200": B200, "b200-rack": B200_RACK}


def tile_flops(widths: Widths, direction: Direction) -> int:
    """Of one tile of one head: products over the head dimension and over the value's width."""
    products = (1, 1) if direction == "forward" else (3, 2)
    return 2 * TILE * TILE * (products[0] * widths.head_dim + products[1] * widths.width_v)


@dataclass(frozen=True)
class Estimate:
    """Seconds of the slowest rank; work: of computing alone, mean of the ranks; sent: bytes of the rank that sends most."""

    strategy: str
    seconds: float
    work: float
    sent: float


def seconds_of_work(load: Load, machine: Machine, direction: Direction) -> Floats:
    """By rank of the queries and rank of the keys, all heads."""
    rate = machine.forward if direction == "forward" else machine.backward
    return load.work * (load.widths.heads * tile_flops(load.widths, direction) / rate)


def seconds_of_calls(calls: Floats, machine: Machine, direction: Direction) -> Floats:
    """What so many kernel calls take beyond their work."""
    return calls * (machine.call if direction == "forward" else 2 * machine.call)


def ring(load: Load, machine: Machine, direction: Direction) -> Estimate:
    """Each step's keys travel while those of the one before are worked on; gradients go home a step later, in f32."""
    ranks = np.arange(load.ranks)
    rows, useful = load.sent, seconds_of_work(load, machine, direction)
    work = useful + seconds_of_calls(load.calls, machine, direction)
    clock, begun = work[ranks, ranks].copy(), np.zeros(load.ranks)
    width, is_backward = load.widths.key_bytes, direction == "backward"
    home = np.zeros(load.ranks)
    for step in range(1, load.ranks):
        owner, reader = (ranks + step) % load.ranks, (ranks - step) % load.ranks
        came = np.maximum(begun, begun[owner]) + travel(rows[ranks, owner] * width, ranks, owner, machine) + home
        begun = np.maximum(clock, np.where(rows[ranks, owner] > 0, came, 0.0))
        clock = begun + work[ranks, owner]
        if is_backward:  # the gradients of a step share the link with the keys of the next but one; the busier way counts
            home = travel(np.maximum(rows[ranks, owner], rows[reader, ranks]) * 2 * width, ranks, owner, machine)
    sent = rows.sum(0) + (2 * rows.sum(1) if is_backward else 0)
    return Estimate("ring", float((clock + home).max()), float(useful.sum(1).mean()), float(sent.max()) * width)


def travel(size: Floats, one: NDArray[np.int64], other: NDArray[np.int64], machine: Machine) -> Floats:
    """Seconds that bytes take between ranks; nothing takes no time."""
    rate = np.where(one // machine.node == other // machine.node, machine.near, machine.far)
    return np.where(size > 0, size / rate + machine.latency, 0.0)


def all_together(machine: Machine, ranks: int, sent: float) -> float:
    """Seconds in which each rank sends `sent` bytes in all, evenly to all ranks."""
    inside = min(machine.node, ranks)
    near, far = sent * (inside - 1) / max(1, ranks - 1), sent * (ranks - inside) / max(1, ranks - 1)
    return max(near / machine.near, far / machine.far) + machine.latency


def all_gather(load: Load, machine: Machine, direction: Direction) -> Estimate:
    """Nothing overlaps."""
    work = seconds_of_work(load, machine, direction).sum(1)
    size = load.positions / load.ranks * (load.ranks - 1) * load.widths.key_bytes * (1 if direction == "forward" else 3)
    busy = float((work + seconds_of_calls(load.runs, machine, direction)).max())
    return Estimate("all_gather", busy + all_together(machine, load.ranks, size), float(work.mean()), size)


def ulysses(load: Load, machine: Machine, direction: Direction) -> Estimate:
    """Nothing overlaps; work is even. The backward exchanges the inputs once more, then gradients."""
    work = float(seconds_of_work(load, machine, direction).sum() / load.ranks)
    shared = max(1, load.ranks // load.widths.kv_heads)
    once = (
        load.positions / load.ranks * (load.widths.query_bytes + shared * load.widths.key_bytes) * (load.ranks - 1) / load.ranks
    )
    size = once * (1 if direction == "forward" else 3)
    busy = work + float(seconds_of_calls(np.array(load.sequences), machine, direction))
    return Estimate("ulysses", busy + all_together(machine, load.ranks, size), work, size)


STRATEGIES = {"ring": ring, "all_gather": all_gather, "ulysses": ulysses}


def has_heads(widths: Widths, ranks: int) -> bool:
    """Whether heads divide over the ranks."""
    return widths.heads % ranks == 0 and (widths.kv_heads % ranks == 0 or ranks % widths.kv_heads == 0)


def step_seconds(load: Load, machine: Machine, strategy: str) -> float:
    """Forward and backward."""
    model = STRATEGIES[strategy]
    return sum(model(load, machine, direction).seconds for direction in ("forward", "backward"))


def choose_strategy(load: Load, machine: Machine) -> str:
    """The strategy of the least time, forward and backward; the ring where two are alike."""
    names = [name for name in STRATEGIES if name != "ulysses" or has_heads(load.widths, load.ranks)]
    return min(names, key=lambda name: step_seconds(load, machine, name))


def candidates(sight: Sight, length: int, ranks: int) -> list[SequenceLayout]:
    """Layouts worth a look, those of fewest runs first: a run is a kernel call for every other run that it sees."""
    stripe = max(TILE, length // (8 * ranks) // TILE * TILE)
    found = [contiguous(length, ranks), zigzag(length, ranks)]
    runs = sorted({2, 4, 8, runs_of(length, ranks)})
    return [*found, *(balanced(sight, length, ranks, count) for count in runs), striped(length, ranks, stripe)]


def choose_layout(sight: Sight, widths: Widths, ranks: int, machine: Machine, strategy: str = "ring") -> SequenceLayout:
    """The layout of rows that takes least time, forward and backward; the first of those alike (within 1 %).

    Keys are cut as rows are, or contiguously where their lengths differ.
    """
    (length,), (length_kv,) = sight.sizes.lengths_q, sight.sizes.lengths_kv
    if strategy == "ulysses":
        return contiguous(length, ranks)
    found = candidates(sight, length, ranks)
    times = []
    for layout in found:
        keys = layout if length_kv == length else contiguous(length_kv, ranks)
        load = load_of_layouts(sight, widths, layout, keys)
        names = STRATEGIES if strategy == "auto" else (strategy,)
        times.append(min(step_seconds(load, machine, name) for name in names if name != "ulysses"))
    return next(layout for layout, seconds in zip(found, times, strict=True) if seconds <= 1.01 * min(times))
