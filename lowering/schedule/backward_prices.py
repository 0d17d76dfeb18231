"""Cycles of the backward's own operations, from the counts of the cost model.

Shared memory is what binds the one-CTA form (FA4 paper, table 3): operands of five products, dS written, dQ written and read.
"""

from typing import Protocol

from attnspec.lowering.analysis.analysed import Analysed, ElementCost
from attnspec.lowering.dataflow.backward import pieces
from attnspec.lowering.dataflow.backward_shape import backward_shape
from attnspec.lowering.dataflow.graph import Dataflow, Operation
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.prices import UNITS, Price

ISSUE = 30.0  # of an asynchronous operation
FROM_GLOBAL = 800.0  # a TMA load, from L2: assumed
CROSSING = 500.0  # of half of dS to the shared memory of another multiprocessor: assumed
LANES = 128  # of tensor memory
F32_BYTES = 4
EXPONENTIAL = ElementCost(mufu=1.0, fma=0.5, alu=0.5, loads=0.25)  # one fused multiply-add for two, a conversion for two
SCORE_GRADIENT = ElementCost(mufu=0.0, fma=1.0, alu=0.5, loads=0.25)  # add delta, multiply by P, each for two


class Counts(Protocol):
    """What the cost model counts with."""

    @property
    def dataflow(self) -> Dataflow: ...
    @property
    def analysed(self) -> Analysed: ...
    @property
    def limits(self) -> Limits: ...
    def product(self, columns: int, depth: int, *, from_shared: int, rows: int | None = None) -> Price: ...
    def tensor_load(self, columns: int) -> Price: ...
    def per_element(self, cost: ElementCost) -> Price: ...


def backward_price(counts: Counts, operation: Operation) -> Price | None:
    """The price of an operation of the backward; None for one that it does not have alone."""
    flow, spec = counts.dataflow, counts.analysed.spec
    shape = backward_shape(spec, flow.ctas)
    match operation.kind:
        case "load_q" | "load_do" | "load_rows" | "load_q_columns" | "load_do_columns":
            return Price(ISSUE, FROM_GLOBAL)
        case "mma_s":
            return counts.product(flow.tile_q, spec.head_dim, from_shared=2, rows=flow.tile_kv)
        case "mma_dp":
            return counts.product(flow.tile_q, spec.head_dim_v, from_shared=2, rows=flow.tile_kv)
        case "mma_dv":
            return counts.product(shape.width_v, flow.tile_q, from_shared=1, rows=flow.tile_kv)
        case "mma_dk":
            return counts.product(shape.width, flow.tile_q, from_shared=1, rows=flow.tile_kv)
        case "mma_dq":
            columns = shape.dq_columns * flow.ctas  # of half of the queries each, and over the keys of both
            return counts.product(columns, flow.tile_kv * flow.ctas, from_shared=2, rows=LANES // flow.ctas)
        case "load_s" | "load_dp":
            return _halved(counts.tensor_load(flow.tile_q))
        case "exp":
            return counts.per_element(EXPONENTIAL)
        case "ds":
            return counts.per_element(SCORE_GRADIENT)
        case "share_ds":
            price = _through_shared(counts, flow.tile_q * flow.tile_kv * 2)  # of a pair half goes out, and as much comes in
            return price if flow.ctas == 1 else Price(price.hold, price.latency + CROSSING, price.units)
    if operation.kind.startswith("load_dq"):
        return counts.tensor_load(shape.dq_columns // pieces(counts.analysed, flow.ctas))
    chunk = LANES * shape.chunk * F32_BYTES
    return _through_shared(counts, chunk) if operation.kind.startswith(("stage_dq", "reduce_dq")) else None


def _halved(price: Price) -> Price:
    """Two warpgroups load half of the columns each, at once; the unit is as busy."""
    busy = price.units[UNITS.index("tensor_memory")]
    return Price(price.hold - busy / 2, price.latency - busy / 2, price.units)


def _through_shared(counts: Counts, count: int) -> Price:
    """So many bytes written to shared memory, or read from it."""
    cycles = count / counts.limits.shared_read_bytes
    return Price(cycles, cycles, tuple(cycles if unit == "shared" else 0.0 for unit in UNITS))
