"""What a plan costs on a machine: seconds of work and of links, step by step. It picks layouts and strategies, and draws scaling.

A model: sustained rates, no contention but of a rank's own link. Ratios of its answers are worth more than the answers.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnspec.distributed.layout import Kind, layout_of
from attnspec.distributed.plan import Plan, Widths, make_plan
from attnspec.distributed.visible import TILE, Sight

Direction = Literal["forward", "backward"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Machine:
    """A cluster. forward, backward: sustained flop/s of attention on a GPU, useful products alone (2 and 5 a tile).

    near, far: bytes/s of a GPU, each way, within a node and beyond; node: GPUs of one; latency: seconds a message.
    """

    name: str
    forward: float
    backward: float
    near: float
    far: float
    node: int
    latency: float = 10e-6


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


def seconds_of_work(plan: Plan, machine: Machine, direction: Direction) -> Floats:
    """By rank of the queries and rank of the keys, all heads."""
    rate = machine.forward if direction == "forward" else machine.backward
    return plan.work * (plan.widths.heads * tile_flops(plan.widths, direction) / rate)


def rows_sent(plan: Plan) -> Floats:
    """Rows of keys by receiver and owner."""
    rows = np.zeros((plan.ranks, plan.ranks))
    for (rank, owner), pieces in plan.needs.items():
        if rank != owner:
            rows[rank, owner] = sum(piece.count for piece in pieces)
    return rows * (plan.sight.sizes.batch if not plan.sight.sizes.is_packed else 1)


def ring(plan: Plan, machine: Machine, direction: Direction) -> Estimate:
    """Each step's keys travel while those of the one before are worked on; gradients go home a step later, in f32."""
    ranks = np.arange(plan.ranks)
    work, rows = seconds_of_work(plan, machine, direction), rows_sent(plan)
    clock, begun = work[ranks, ranks].copy(), np.zeros(plan.ranks)
    for step in range(1, plan.ranks):
        owner = (ranks + step) % plan.ranks
        came = np.maximum(begun, begun[owner]) + travel(rows[ranks, owner] * plan.widths.key_bytes, ranks, owner, machine)
        if direction == "backward" and step > 1:  # the gradients of the step before share the link
            before, reader = (ranks + step - 1) % plan.ranks, (ranks - step + 1) % plan.ranks
            home = np.maximum(rows[ranks, before], rows[reader, ranks]) * 2 * plan.widths.key_bytes
            came = np.maximum(came, begun + travel(home, ranks, before, machine) + came - begun)
        begun = np.maximum(clock, np.where(rows[ranks, owner] > 0, came, 0.0))
        clock = begun + work[ranks, owner]
    factor = 1 if direction == "forward" else 3
    return Estimate(
        "ring", float(clock.max()), float(work.sum(1).mean()), float(rows.sum(0).max()) * plan.widths.key_bytes * factor
    )


def travel(size: Floats, one: NDArray[np.int64], other: NDArray[np.int64], machine: Machine) -> Floats:
    """Seconds that bytes take between ranks; nothing takes no time."""
    rate = np.where(one // machine.node == other // machine.node, machine.near, machine.far)
    return np.where(size > 0, size / rate + machine.latency, 0.0)


def all_together(machine: Machine, ranks: int, sent: float) -> float:
    """Seconds in which each rank sends `sent` bytes in all, evenly to all ranks."""
    inside = min(machine.node, ranks)
    near, far = sent * (inside - 1) / max(1, ranks - 1), sent * (ranks - inside) / max(1, ranks - 1)
    return max(near / machine.near, far / machine.far) + machine.latency


def all_gather(plan: Plan, machine: Machine, direction: Direction) -> Estimate:
    """Nothing overlaps."""
    work = seconds_of_work(plan, machine, direction).sum(1)
    size = positions(plan) / plan.ranks * (plan.ranks - 1) * plan.widths.key_bytes * (1 if direction == "forward" else 3)
    return Estimate("all_gather", float(work.max()) + all_together(machine, plan.ranks, size), float(work.mean()), size)


def ulysses(plan: Plan, machine: Machine, direction: Direction) -> Estimate:
    """Nothing overlaps; work is even. The backward exchanges the inputs once more, then gradients."""
    work = float(seconds_of_work(plan, machine, direction).sum() / plan.ranks)
    shared = max(1, plan.ranks // plan.widths.kv_heads)
    once = (
        positions(plan) / plan.ranks * (plan.widths.query_bytes + shared * plan.widths.key_bytes) * (plan.ranks - 1) / plan.ranks
    )
    size = once * (1 if direction == "forward" else 3)
    return Estimate("ulysses", work + all_together(machine, plan.ranks, size), work, size)


def positions(plan: Plan) -> int:
    """Of keys, over the batch."""
    return plan.layout_kv.length * (1 if plan.sight.sizes.is_packed else plan.sight.sizes.batch)


STRATEGIES = {"ring": ring, "all_gather": all_gather, "ulysses": ulysses}


def has_heads(widths: Widths, ranks: int) -> bool:
    """Whether heads divide over the ranks."""
    return widths.heads % ranks == 0 and (widths.kv_heads % ranks == 0 or ranks % widths.kv_heads == 0)


def step_seconds(plan: Plan, machine: Machine, strategy: str) -> float:
    """Forward and backward."""
    model = STRATEGIES[strategy]
    return sum(model(plan, machine, direction).seconds for direction in ("forward", "backward"))


def choose_strategy(plan: Plan, machine: Machine) -> str:
    """The strategy of the least time, forward and backward; the ring where two are alike."""
    names = [name for name in STRATEGIES if name != "ulysses" or has_heads(plan.widths, plan.ranks)]
    return min(names, key=lambda name: step_seconds(plan, machine, name))


def candidates(length: int, ranks: int) -> tuple[str, ...]:
    """Layouts worth a look: stripes of whole tiles, so that there is a kernel call a stripe and not one a token."""
    stripe = max(TILE, length // (8 * ranks) // TILE * TILE)
    return ("contiguous", "zigzag", f"striped:{stripe}")


def choose_layout(
    sight: Sight, widths: Widths, length_q: int, length_kv: int, ranks: int, machine: Machine, strategy: str = "ring"
) -> Kind:
    """The layout of the least time, forward and backward; the first of those alike (within 1 %)."""
    strategy = "ring" if strategy == "auto" else strategy
    names = candidates(max(length_q, length_kv), ranks) if strategy != "ulysses" else ("contiguous",)
    times = {}
    for name in names:
        plan = make_plan(sight, widths, layout_of(name, length_q, ranks), layout_of(name, length_kv, ranks))
        times[name] = step_seconds(plan, machine, strategy)
    best = min(times.values())
    return next(name for name, seconds in times.items() if seconds <= 1.01 * best)
