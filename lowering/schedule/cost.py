"""Cycles: what each operation costs its role and each unit, on a chip of given rates.

Latencies that no rate gives are constants of the B200 set: Triton's latency model and guards measured on a B200, both by
others. The tensor drain and the load of tensor memory decide about a quarter of the steady interval: bracket them.
"""

from dataclasses import dataclass

from attnspec.lowering.analysis.analysed import Analysed, ElementCost
from attnspec.lowering.analysis.cost import element_cost
from attnspec.lowering.analysis.peel import fuses_score, peel
from attnspec.lowering.dataflow.forward import LOAD_TILE
from attnspec.lowering.dataflow.graph import Dataflow, Operation
from attnspec.lowering.schedule.backward_prices import backward_price
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.prices import HAND_OFF, UNITS, Price, Prices
from attnspec.lowering.schedule.register_backward_prices import register_backward_price
from attnspec.lowering.schedule.register_prices import register_price
from attnspec.lowering.schedule.schedule import Choices

TENSOR_DRAIN = 388.0  # last cycle on the pipe to a result that others see
TENSOR_LOAD_WAIT = 276.0  # 532 for 128 columns, of which 256 are transfer
REMOTE = 100.0  # more, to another multiprocessor than one's own: assumed
ISSUE = 30.0  # of an asynchronous operation
GLOBAL_LOAD = 800.0  # TMA, from L2: assumed
STORE = 400.0  # TMA, until shared memory has been read, beside the reading: assumed
OTHER = 100.0  # of an operation of the tile that nobody has measured
SHARE = 20.0  # a row statistic to shared memory, beside the exponentials
CHUNK = 32  # columns exponentiated, converted and stored at once
CHUNK_STORE = 16.0
RESCALE_OVERHEAD = 40.0  # the ballot and the loop around a taken rescale
LAZY_SHARE = 0.1  # steps in which some row's maximum grows past the threshold (FA4: about ten times fewer rescales)
# An exponential on the FMA pipe: lane slots with a polynomial of degree 3 (measured, cuDNN front end), ALU operations (clamp,
# shift, add of the exponent), and issue slots, where two elements share those of packed instructions.
EMULATED_SLOTS = 7.45
EMULATED_ALU = 3.0
EMULATED_ISSUE = 6.0
LANES = 128  # of the four schedulers


def price(dataflow: Dataflow, analysed: Analysed, choices: Choices, limits: Limits, *, masked: bool = False) -> Prices:
    """Prices of a KV step and of what happens once a tile; masked: of a step whose tiles need the element mask."""
    counter = _Counter(dataflow, analysed, choices, limits, masked)
    steps = [operation for operation in dataflow.operations if operation.rate == "step"]
    tiles = [operation for operation in dataflow.operations if operation.rate == "tile"]
    return Prices(
        tuple((operation.name, counter.price(operation)) for operation in steps),
        hand_off=HAND_OFF + counter.remote,
        of_tile=tuple((operation.name, counter.price_of_tile(operation)) for operation in tiles),
        leaves_out=choices.rescale_threshold > 0,
    )


@dataclass(frozen=True)
class _Counter:
    dataflow: Dataflow
    analysed: Analysed
    choices: Choices
    limits: Limits
    masked: bool

    @property
    def remote(self) -> float:
        """What a hand-over takes longer in a pair of CTAs, whose roles wait for those of both."""
        return REMOTE if self.dataflow.ctas > 1 else 0.0

    @property
    def elements(self) -> int:
        return self.dataflow.tile_q * self.dataflow.tile_kv

    def price(self, operation: Operation) -> Price:
        find = register_backward_price if self.dataflow.register_products else backward_price
        of_backward = find(self, operation) if self.dataflow.direction == "backward" else None
        if of_backward is not None:
            return of_backward
        if self.dataflow.register_products and (in_registers := register_price(self, operation)) is not None:
            return in_registers
        spec, split = self.analysed.spec, self.choices.probability_split
        match operation.kind:
            case "load_k" | "load_v":
                return Price(ISSUE, GLOBAL_LOAD)
            case kind if kind.startswith(LOAD_TILE):
                return Price(ISSUE, GLOBAL_LOAD)
            case "mma_qk":
                return self.product(self.dataflow.tile_kv, spec.head_dim, from_shared=2)
            case "mma_pv_head":
                return self.product(spec.head_dim_v, split, from_shared=1)
            case "mma_pv_tail":
                return self.product(spec.head_dim_v, self.dataflow.tile_kv - split, from_shared=1)
            case "load_s":
                return self.tensor_load(self.dataflow.tile_kv)
            case "score":
                return self.per_element(self.analysed.score_cost)
            case "mask":
                return self.per_element(self.analysed.mask_cost) if self.masked else Price(0.0, 0.0)
            case "row_max":
                return self.per_element(ElementCost(0.0, 0.0, 0.5, 0.0))  # of three operands
            case "row_sum":
                return self.per_element(ElementCost(0.0, 1.0, 0.0, 0.0), packed=1.0)
            case "share_scale":
                return self.factors()
            case "exp_head":
                return self.exponentials(split)
            case "exp_tail":
                return self.exponentials(self.dataflow.tile_kv - split)
            case "rescale":
                return self.rescale(spec.head_dim_v)
        return Price(0.0, 0.0)

    def price_of_tile(self, operation: Operation) -> Price:
        """Of an operation that happens once a tile."""
        columns = self.analysed.spec.head_dim_v
        match operation.kind:
            case "load_q":
                return Price(ISSUE, GLOBAL_LOAD)
            case "free_q":
                return Price(0.0, 0.0)
            case "share_row":
                return Price(SHARE, SHARE)
            case "finish":
                # Out of tensor memory, times 1 / row sum, to 16 bits, to shared memory (128 lanes of two bytes a column).
                cycles = TENSOR_LOAD_WAIT + 2 * columns + columns + 2 * columns + RESCALE_OVERHEAD
                return Price(cycles, cycles)
            case "store_o":
                cycles = STORE + 2 * columns
                return Price(cycles, cycles)
        return Price(OTHER, OTHER)

    def product(self, columns: int, depth: int, *, from_shared: int, rows: int | None = None) -> Price:
        """A tensor operation of `rows`, or tile_q, rows; from_shared: how many of its operands it reads from shared memory."""
        rows, columns, depth = rows or self.dataflow.tile_q, -(-columns // 16) * 16, -(-depth // 16) * 16
        busy = 2 * rows * columns * depth / self.limits.tensor_flops
        # Of a pair, each multiprocessor reads half of the shared operand, and hears the other half.
        operands = 2 * depth * (columns / self.dataflow.ctas + (rows if from_shared == 2 else 0))
        units = {"tensor": busy, "shared": operands / self.limits.shared_read_bytes}
        return Price(busy, busy + TENSOR_DRAIN + self.remote, _by_unit(units))

    def tensor_load(self, columns: int) -> Price:
        busy = 2.0 * columns
        return Price(TENSOR_LOAD_WAIT + busy, TENSOR_LOAD_WAIT + busy, _by_unit({"tensor_memory": busy}))

    def per_element(self, cost: ElementCost, packed: float = 0.0) -> Price:
        """Instructions of each element of a tile; a warpgroup issues 128 lanes a clock, and waits for the slowest unit.

        packed: instructions of those that two elements share.
        """
        units = {
            "mufu": cost.mufu * self.elements / self.limits.exponentials,
            "fma": cost.fma * self.elements / self.limits.fma_lanes,
            "alu": cost.alu * self.elements / self.limits.alu_lanes,
            "issue": (cost.mufu + cost.fma + cost.alu + cost.loads - packed / 2) * self.elements / LANES,
        }
        hold = max(units.values())
        return Price(hold, hold, _by_unit(units))

    def exponentials(self, columns: int) -> Price:
        """Scaled, exponentiated on two pipes at once, converted and stored in chunks."""
        share, more = self.choices.emulated_share, self.choices.exponential_degree - 3
        count, score = columns * self.dataflow.tile_q, self.fused_score
        units = {
            "mufu": (score.mufu + 1 - share) * count / self.limits.exponentials,
            "fma": (score.fma + 1 + share * (EMULATED_SLOTS + more)) * count / self.limits.fma_lanes,
            "alu": (score.alu + 0.5 + share * EMULATED_ALU) * count / self.limits.alu_lanes,  # converts two at once
            "tensor_memory": columns / 2,
            "issue": (issued(score) + 0.5 + (1 - share) + 0.5 + share * (EMULATED_ISSUE + more / 2)) * count / LANES,
        }
        hold = max(units[name] for name in ("mufu", "fma", "alu", "issue")) + columns / CHUNK * CHUNK_STORE
        return Price(hold, hold, _by_unit(units))

    @property
    def fused_score(self) -> ElementCost:
        """Of the score, where it is part of the exponentials: without the factors that others take in, with that of the scale."""
        is_apart = any(operation.kind == "score" for operation in self.dataflow.operations)
        if self.dataflow.direction == "backward" or is_apart or not fuses_score(self.analysed):
            return ElementCost(0.0, 0.0, 0.0, 0.0)
        found, whole = element_cost(peel(self.analysed).score), element_cost(self.analysed.spec.score)
        given = self.analysed.score_cost
        return ElementCost(given.mufu, max(0.0, given.fma - whole.fma + found.fma) + 1.0, given.alu, given.loads)

    def factors(self) -> Price:
        """What brings O to a new maximum; where lanes are key tiles, their sums too, which are under maxima of their own."""
        if self.dataflow.key_tiles == 1:
            return Price(0.0, SHARE)
        busy = 2 * self.dataflow.tile_q / self.limits.exponentials
        return Price(busy, SHARE, _by_unit({"mufu": busy}))

    def rescale(self, columns: int) -> Price:
        """The expected cost: O through registers, in the share of steps in which it is taken."""
        share = LAZY_SHARE if self.choices.rescale_threshold > 0 else 1.0
        taken = TENSOR_LOAD_WAIT + 2 * columns + columns + 0.75 * columns + RESCALE_OVERHEAD
        units = {"tensor_memory": share * 2.75 * columns, "fma": share * columns * self.dataflow.tile_q / self.limits.fma_lanes}
        return Price(share * taken, share * taken, _by_unit(units))


def issued(score: ElementCost) -> float:
    """Issue slots of a fused score: the product with the scale is packed."""
    slots = score.mufu + score.fma + score.alu + score.loads
    return slots - 0.5 if slots else 0.0


def _by_unit(units: dict[str, float]) -> tuple[float, ...]:
    return tuple(units.get(unit, 0.0) for unit in UNITS)
