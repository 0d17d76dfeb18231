"""Cycles of the backward's operations where products leave their results in registers (Hopper, wgmma)."""

from typing import Any

from attnspec.lowering.analysis.analysed import ElementCost
from attnspec.lowering.dataflow.backward_in_registers import GROUPS, register_shape
from attnspec.lowering.dataflow.graph import Operation
from attnspec.lowering.schedule.prices import UNITS, Price
from attnspec.lowering.schedule.register_prices import DRAIN, GROUP_ROWS

ISSUE = 30.0  # of an asynchronous operation
FROM_SHARED = 260.0  # a load of words, while products read operands: measured on an H200
FROM_GLOBAL = 800.0  # a TMA load, from L2: assumed
ADDS = 700.0  # of a step's diagonals, read from shared memory and added to global memory by a warp: assumed
EXPONENTIAL = ElementCost(mufu=1.0, fma=1.0, alu=0.5, loads=0.0)  # a fused multiply-add each, a conversion for two
SCORE_GRADIENT = ElementCost(mufu=0.0, fma=2.0, alu=0.5, loads=0.0)  # add delta, multiply by P


def register_backward_price(counts: Any, operation: Operation) -> Price | None:
    """The price of an operation of the backward; None for one that it does not have alone."""
    flow, spec = counts.dataflow, counts.analysed.spec
    shape = register_shape(counts.analysed)
    match operation.kind:
        case "load_q" | "load_do" | "load_rows":
            return Price(ISSUE, FROM_GLOBAL)
        case "mma_s":
            return _product(counts, GROUP_ROWS, flow.tile_q, spec.head_dim, from_shared=2)
        case "mma_dp":
            return _product(counts, GROUP_ROWS, flow.tile_q, spec.head_dim_v, from_shared=2)
        case "mma_dv":
            return _product(counts, GROUP_ROWS, shape.width_v, flow.tile_q, from_shared=1)
        case "mma_dk":
            return _product(counts, GROUP_ROWS, shape.width, flow.tile_q, from_shared=1)
        case "mma_dq":
            return _product(counts, GROUP_ROWS, shape.dq_queries, flow.tile_kv, from_shared=2)
        case "exp":
            return counts.per_element(EXPONENTIAL)
        case "ds":
            return counts.per_element(SCORE_GRADIENT)
        case "read_lse" | "read_delta":
            return Price(ISSUE, FROM_SHARED)
        case "add_shares":
            return Price(ADDS, ADDS, _through_shared(counts, shape.strips_bytes).units)
        case "share_ds":
            return _through_shared(counts, flow.tile_q * flow.tile_kv * 2)
    if operation.kind.startswith(("stage_dq_", "reduce_dq_")):
        return _through_shared(counts, shape.chunk_bytes)
    return Price(0.0, 0.0) if operation.kind.startswith("await_") else None


def _product(counts: Any, rows: int, columns: int, depth: int, *, from_shared: int) -> Price:
    """A product of both warpgroups, so many rows of each; from_shared: how many of its operands it reads from shared memory."""
    columns, depth = -(-columns // 8) * 8, -(-depth // 16) * 16
    busy = GROUPS * 2 * rows * columns * depth / counts.limits.tensor_flops
    operands = GROUPS * 2 * depth * (columns + (rows if from_shared == 2 else 0))
    return Price(busy, busy + DRAIN, _by_unit({"tensor": busy, "shared": operands / counts.limits.shared_read_bytes}))


def _through_shared(counts: Any, count: int) -> Price:
    """So many bytes written to shared memory, or read from it."""
    cycles = count / counts.limits.shared_read_bytes
    return Price(cycles, cycles, _by_unit({"shared": cycles}))


def _by_unit(units: dict[str, float]) -> tuple[float, ...]:
    return tuple(units.get(unit, 0.0) for unit in UNITS)
