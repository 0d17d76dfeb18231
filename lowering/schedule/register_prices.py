"""Cycles of the forward's operations where scores, probabilities and output are in registers (Hopper, wgmma).

The tensor core reads keys and values anew for each warpgroup. Plain f32 arithmetic has no packed form on such a chip, so every
element costs an issue slot of its own.
"""

from typing import Any

from attnspec.lowering.analysis.analysed import ElementCost
from attnspec.lowering.dataflow.graph import Operation
from attnspec.lowering.schedule.prices import UNITS, Price

DRAIN = 128.0  # last cycle on the pipe to a result that the warps read: assumed, as in the published schedules of FA3
GROUP_ROWS = 64
LAZY_SHARE = 0.1  # steps in which some row's maximum grows past the threshold (FA4: about ten times fewer rescales)
EMULATED_SLOTS = 8.0  # an exponential on the FMA pipe: clamp apart, a rounded sum, a difference, a part, a cubic
EMULATED_ALU = 3.0


def register_price(counter: Any, operation: Operation) -> Price | None:
    """The price of an operation of a step; None where it costs what it costs elsewhere (score, mask, loads)."""
    flow, spec = counter.dataflow, counter.analysed.spec
    match operation.kind:
        case "mma_qk":
            return _product(counter, flow.tile_kv, spec.head_dim, from_shared=2)
        case "mma_pv":
            return _product(counter, spec.head_dim_v, flow.tile_kv, from_shared=1)
        case "await_s" | "await_o":
            return Price(0.0, 0.0)
        case "row_max":
            return counter.per_element(ElementCost(0.0, 0.0, 1.0, 0.0))
        case "row_sum":
            return counter.per_element(ElementCost(0.0, 1.0, 0.0, 0.0))
        case "exp":
            return _exponentials(counter)
        case "convert":
            return counter.per_element(ElementCost(0.0, 0.0, 0.5, 0.0))
        case "rescale":
            share = LAZY_SHARE if counter.choices.rescale_threshold > 0 else 1.0
            cycles = share * flow.tile_q * spec.head_dim_v / counter.limits.fma_lanes
            return Price(cycles, cycles, _by_unit({"fma": cycles, "issue": cycles}))
    return None


def _product(counter: Any, columns: int, depth: int, *, from_shared: int) -> Price:
    """A product of every warpgroup's 64 rows; from_shared: how many of its operands it reads from shared memory."""
    rows, columns, depth = counter.dataflow.tile_q, -(-columns // 8) * 8, -(-depth // 16) * 16
    busy = 2 * rows * columns * depth / counter.limits.tensor_flops
    operands = 2 * depth * (columns * (rows // GROUP_ROWS) + (rows if from_shared == 2 else 0))
    return Price(busy, busy + DRAIN, _by_unit({"tensor": busy, "shared": operands / counter.limits.shared_read_bytes}))


def _exponentials(counter: Any) -> Price:
    """Scaled and exponentiated on two pipes at once."""
    share, more = counter.choices.emulated_share, counter.choices.exponential_degree - 3
    cost = ElementCost(1 - share, 1 + share * (EMULATED_SLOTS + more), share * EMULATED_ALU, 0.0)
    return counter.per_element(cost)


def _by_unit(units: dict[str, float]) -> tuple[float, ...]:
    return tuple(units.get(unit, 0.0) for unit in UNITS)
