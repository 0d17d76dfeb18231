"""The backward graph of a chip whose tensor core leaves its results in registers of the warps that started it (Hopper, wgmma).

A key tile belongs to two warpgroups of 64 keys each, with dK and dV of their own in registers; query tiles stream past. Scores
are made transposed, so that P^T and dS^T are operands from registers as they stand (FA3, backward). dS also goes to shared
memory, where each warpgroup reads that of both for its share of dQ^T: half of the queries, or half of the columns.

dK and dV of heads above 128 do not fit a thread's registers. A work tile is then done in parts, each for 128 columns of dK, dV
and dQ, with scores and dP made anew from whole head dimensions.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.sorted_masks import solve_sorted
from attnspec.lowering.analysis.visits import count_visits, unknown_of
from attnspec.lowering.dataflow.forward_in_registers import ELEMENT_BYTES, F32, GROUP_ROWS, SWIZZLE_ELEMENTS
from attnspec.lowering.dataflow.graph import Buffer, Dataflow, Operation, Value

from attnspec.language.expr import Binary, Call, Name, Number, Read, nodes
from attnspec.language.spec import Spec

GROUPS = 2  # warpgroups of a key tile
TILE_KV = GROUPS * GROUP_ROWS
WARPS, WARP_KEYS = 8, 16  # of both warpgroups, and keys of each
PLANES = 2  # numbers a row brings: its log-sum-exp and delta
# Of a step: many for head dimensions up to 64, fewer where a score learns and loads by distance, which wants registers; more than
# few up to 128, where K and V are read as often for few.
FEW_QUERIES, MORE_QUERIES, STRIP_QUERIES, MANY_QUERIES = 64, 80, 96, 128
# That a query takes in a longer step for one in a step of 64, where it sees all keys: measured (H200); for 96 by instructions.
CYCLES = {MORE_QUERIES: 0.96, STRIP_QUERIES: 0.96}
USUAL_LENGTH = 8192  # of queries and keys, for which steps are counted
MORE_AHEAD = (5, 0, 1)  # read ahead where a step has 80 queries: with more, ptxas spills
PER_QUERY = ("row", "distance", "element", "scattered")  # addresses that differ from query to query
CHEAP = ("+", "-", "min", "max")  # of an instruction
PIECE = 16  # columns of a product's operand are a multiple of this
PART = 128  # columns of dK, dV and dQ at a time
# Of dS, and chunks in which dQ is staged, the best first: with two slots of dS one is written while the other is multiplied, and
# dQ staged at once waits once a step. Whole tiles of wide heads leave no room for both.
ROOMS = ((2, 1), (1, 1), (1, 2))
THREAD_REGISTERS = 240
ADDRESSES, LOADED = 10, 22  # registers of a thread: for places; for what is loaded for each query, or shares of learned tensors
MASK_REGISTERS, MASK_QUERIES = 10, 64  # taken while scores are masked
PAIR_QUERIES = 8  # of which a thread has two
PAIR_BYTES = 2 * F32
SHARED_BYTES = 226 * 1024  # of a block, without barriers


@dataclass(frozen=True)
class RegisterShape:
    """Sizes of a step. tile_q: queries; width, width_v: columns of dK and dV at a time; splits_queries: a warpgroup makes dQ of
    its half of the queries, else 64 columns of all. parts: times that a work tile is done.

    slots: of dS. chunks: in which dQ of a step is staged; where there are two, each is one warpgroup's. others: registers of a
    thread for what is not of the tile. ahead: pairs of numbers of rows that a thread reads ahead, as `lse_ahead`, `early_delta`
    and `late_delta`; None: as many as its registers hold. strips: learned tensors read by distance whose shares warps sum along
    diagonals and stage, see `strip_words`.
    """

    tile_q: int
    width: int
    width_v: int
    splits_queries: bool
    parts: int = 1
    slots: int = ROOMS[0][0]
    chunks: int = ROOMS[0][1]
    others: int = ADDRESSES
    ahead: tuple[int, int, int] | None = None
    strips: int = 0

    @property
    def lse_ahead(self) -> int:
        """Pairs of log-sum-exps that a thread reads before there are scores: those that fit its registers."""
        return self.ahead[0] if self.ahead else min(self.pairs, max(self._while_masked // 2, 0))

    @property
    def early_delta(self) -> int:
        """Pairs of delta that it reads then too."""
        return (
            self.ahead[1]
            if self.ahead
            else min(self.pairs, max(min(self._after_exp, self._while_masked - 2 * self.lse_ahead) // 2, 0))
        )

    @property
    def late_delta(self) -> int:
        """Those that it reads when there are probabilities, and log-sum-exps no longer take registers."""
        return self.ahead[2] if self.ahead else min(self.pairs, max(self._after_exp // 2, 0))

    @property
    def dq_queries(self) -> int:
        """Queries whose dQ a warpgroup makes, 64 columns of it."""
        return self.tile_q // GROUPS if self.splits_queries else self.tile_q

    @property
    def pairs(self) -> int:
        """Of queries that a thread has."""
        return self.tile_q // PAIR_QUERIES

    @property
    def _scores(self) -> int:
        return self.tile_q // 2

    @property
    def _while_masked(self) -> int:
        """Registers beside scores and dP, while scores are masked."""
        return self._beside_sums - MASK_REGISTERS * self.tile_q // MASK_QUERIES - 2 * self._scores

    @property
    def _after_exp(self) -> int:
        """Registers beside probabilities, which are there twice, as operands too, and dP."""
        return self._beside_sums - 2 * self._scores - self._scores // 2

    @property
    def _beside_sums(self) -> int:
        return THREAD_REGISTERS - self.others - self.width // 2 - self.width_v // 2

    @property
    def strip_queries(self) -> int:
        """Queries whose diagonals a warp sums at a time: wide dK and dV leave registers for half of them."""
        return self.tile_q // 2 if self.width > SWIZZLE_ELEMENTS else self.tile_q

    @property
    def strip_words(self) -> int:
        """Sums of a strip: a warp's keys by those queries have one diagonal less, and one to spare."""
        return self.strip_queries + WARP_KEYS

    @property
    def strips_bytes(self) -> int:
        """The strips of a step."""
        return self.strips * WARPS * (self.tile_q // self.strip_queries) * self.strip_words * F32

    @property
    def chunk_bytes(self) -> int:
        """What is staged of dQ at a time."""
        return self.tile_q * self.width * F32 // self.chunks

    @property
    def ds_bytes(self) -> int:
        """All slots of dS."""
        return self.slots * self.tile_q * TILE_KV * ELEMENT_BYTES


def register_shape(analysed: Analysed) -> RegisterShape:
    """The tiles whose dK, dV, scores and dQ fit a thread's registers."""
    spec = analysed.spec
    width, width_v = (-(-dim // PIECE) * PIECE for dim in (spec.head_dim, spec.head_dim_v))
    crowded = _wants_registers(analysed) or _loads(analysed, "mask")
    others = ADDRESSES + LOADED * crowded
    is_narrow = max(width, width_v) <= SWIZZLE_ELEMENTS
    if is_narrow and not _wants_registers(analysed):
        return RegisterShape(MANY_QUERIES, width, width_v, True, others=others)
    parts = -(-max(width, width_v) // PART)
    widths = (min(width, PART), min(width_v, PART))
    scores = spec.score != Name("score", "float")  # what a score keeps beside P spills in longer steps
    if is_narrow or crowded or scores or parts > 1 or not _saves_by(analysed, MORE_QUERIES):
        strips = sum(found.address == "distance" for found in analysed.derivative.learned) if parts == 1 else 0
        is_longer = is_narrow and _shares_by_distance(analysed) and _saves_by(analysed, STRIP_QUERIES)
        queries = STRIP_QUERIES if is_longer else FEW_QUERIES
        shape = RegisterShape(queries, *widths, is_narrow, parts, others=others, strips=strips)
    else:
        shape = RegisterShape(MORE_QUERIES, *widths, is_narrow, others=others, ahead=MORE_AHEAD)
    rooms = [replace(shape, slots=slots, chunks=chunks) for slots, chunks in ROOMS]
    return next((room for room in rooms if _bytes_of(spec, room) <= SHARED_BYTES), rooms[-1])


def _saves_by(analysed: Analysed, queries: int) -> bool:
    """Whether longer steps save more than the queries cost that they meet beyond those that are seen."""
    if unknown_of(analysed):
        return False
    few, more = (tile * count_visits(analysed, tile, TILE_KV, USUAL_LENGTH) for tile in (FEW_QUERIES, queries))
    return more * CYCLES[queries] <= few


def _wants_registers(analysed: Analysed) -> bool:
    """Whether registers are wanted for what is loaded beside each score, or for shares of learned tensors."""
    return _loads(analysed, "score") or bool(analysed.derivative.learned)


def _shares_by_distance(analysed: Analysed) -> bool:
    """Whether a score learns one tensor, and loads for each query, by distance alone, at an index that is a sum or clamped one:
    where more is worked out for each distance, longer steps spill, or have more instructions a query."""
    learned = analysed.derivative.learned
    loaded = (found.address for found in analysed.reads if found.where == "score" and found.address in PER_QUERY)
    computed = [at for found in learned for index in found.indices for at in nodes(index)]
    is_simple = all(isinstance(at, Number | Name) or (isinstance(at, Binary | Call) and _name_of(at) in CHEAP) for at in computed)
    return len(learned) == 1 and is_simple and {found.address for found in learned} | set(loaded) == {"distance"}


def _name_of(at: Binary | Call) -> str:
    return at.op if isinstance(at, Binary) else at.function


def _loads(analysed: Analysed, where: str) -> bool:
    """Whether the score, or the mask, loads something for each query; a place in a sorted tensor is looked up once a key."""
    mask = solve_sorted(analysed.spec, "q")
    read = {(at.tensor, at.indices) for at in nodes(mask) if isinstance(at, Read)} if mask is not None else set()
    found = (one for one in analysed.reads if one.where == where and one.address in PER_QUERY)
    return any(where != "mask" or (one.tensor, one.indices) in read for one in found)


def _delta_is_early(analysed: Analysed) -> bool:
    """Whether delta is read with log-sum-exp: where there is nothing but a mask, which leaves registers for both."""
    return analysed.spec.score == Name("score", "float") and not _wants_registers(analysed) and not _loads(analysed, "mask")


def _bytes_of(spec: Spec, shape: RegisterShape) -> int:
    """Shared memory with two slots of Q, which is loaded while the one before is multiplied, and one of all else."""
    tiles = sum(_tile_bytes(rows, dim) for rows in (TILE_KV, shape.tile_q) for dim in (spec.head_dim, spec.head_dim_v))
    tiles += _tile_bytes(shape.tile_q, spec.head_dim)
    return tiles + shape.ds_bytes + shape.chunk_bytes + shape.strips_bytes + PLANES * shape.tile_q * F32


def draw_backward_in_registers(analysed: Analysed, deterministic: bool = False) -> Dataflow:
    """The backward graph of a variant. A step is a query tile of one head of the group; a work tile is a key tile."""
    return Dataflow(
        direction="backward",
        tile_q=register_shape(analysed).tile_q,
        tile_kv=TILE_KV,
        query_tiles=1,
        operations=_operations(analysed),
        buffers=_buffers(analysed),
        values=_values(analysed),
        deterministic=deterministic,
    )


def _chain(analysed: Analysed) -> list[Operation]:
    """What happens to a tile of scores, in order."""
    spec = analysed.spec
    chain = [Operation("await_s", "threads", "step")]
    if spec.score != Name("score", "float"):
        chain.append(Operation("score", "threads", "step", note="score of the file"))
    note = "positions past the lengths" if spec.mask is None else "mask of the file, and positions past the lengths"
    return [*chain, Operation("mask", "threads", "step", note=note), Operation("exp", "threads", "step")]


def _operations(analysed: Analysed) -> tuple[Operation, ...]:
    shape = register_shape(analysed)
    chunks = range(shape.chunks)
    sums = Operation("add_shares", "threads", "step", note="sums of warps along diagonals, to learned tensors")
    return (
        Operation("load_k", "tma", "tile"),
        Operation("load_v", "tma", "tile"),
        Operation("load_q", "tma", "step"),
        Operation("load_rows", "tma", "step", note="log-sum-exp and delta"),
        Operation("load_do", "tma", "step"),
        Operation("mma_s", "tensor", "step"),
        Operation("mma_dp", "tensor", "step"),
        Operation("read_lse", "threads", "step", note="the first log-sum-exps, ahead of their use"),
        Operation("read_delta", "threads", "step", note="the first deltas, ahead of their use"),
        *_chain(analysed),
        Operation("mma_dv", "tensor", "step"),
        Operation("await_dp", "threads", "step"),
        Operation("ds", "threads", "step", note="P (dP - delta), times the score's derivative"),
        Operation("share_ds", "threads", "step"),
        Operation("mma_dk", "tensor", "step"),
        Operation("mma_dq", "tensor", "step"),
        Operation("await_dv", "threads", "step"),
        Operation("await_dk", "threads", "step"),
        Operation("await_dq", "threads", "step"),
        *(Operation(f"stage_dq_{at}", "threads", "step") for at in chunks),
        *(Operation(f"reduce_dq_{at}", "tma", "step") for at in chunks),
        *((sums,) if shape.strips else ()),
        Operation("store_dv", "threads", "tile"),
        Operation("store_dk", "threads", "tile"),
    )


def _tile_bytes(rows: int, columns: int) -> int:
    return rows * -(-columns // SWIZZLE_ELEMENTS) * SWIZZLE_ELEMENTS * ELEMENT_BYTES


def _buffers(analysed: Analysed) -> tuple[Buffer, ...]:
    spec, shape = analysed.spec, register_shape(analysed)
    scores = TILE_KV * shape.tile_q // (GROUPS * 128)  # of a thread
    return (
        Buffer("k", "shared", _tile_bytes(TILE_KV, spec.head_dim)),
        Buffer("v", "shared", _tile_bytes(TILE_KV, spec.head_dim_v)),
        Buffer("q", "shared", _tile_bytes(shape.tile_q, spec.head_dim)),
        Buffer("do", "shared", _tile_bytes(shape.tile_q, spec.head_dim_v)),
        Buffer("ds_out", "shared", shape.ds_bytes),
        Buffer("dq_out", "shared", shape.chunk_bytes),
        Buffer("rows", "shared", PLANES * shape.tile_q * F32),
        *((Buffer("strips", "shared", shape.strips_bytes),) if shape.strips else ()),
        Buffer("lse", "register", PAIR_BYTES * shape.lse_ahead),
        Buffer("delta", "register", PAIR_BYTES * (shape.early_delta if _delta_is_early(analysed) else shape.late_delta)),
        Buffer("scores", "register", F32 * scores),
        Buffer("dp", "register", F32 * scores),
        Buffer("p", "register", ELEMENT_BYTES * scores),
        Buffer("ds", "register", ELEMENT_BYTES * scores),
        Buffer("dv", "register", F32 * shape.width_v // 2),
        Buffer("dk", "register", F32 * shape.width // 2),
        Buffer("dq", "register", F32 * shape.dq_queries // 2),
    )


def _values(analysed: Analysed) -> tuple[Value, ...]:
    chain = [operation.name for operation in _chain(analysed)]
    shape = register_shape(analysed)
    chunks = range(shape.chunks)
    staged = [f"stage_dq_{at}" for at in chunks]
    last = ("await_dv", "await_dk", staged[-1])  # of a step
    return (
        *(Value("load_k", reader, "k", name="k") for reader in ("mma_s", "mma_dq", "await_dq")),
        *(Value("load_v", reader, "v", name="v") for reader in ("mma_dp", "await_dp")),
        *(Value("load_q", reader, "q", name="q") for reader in ("mma_s", "mma_dk", "await_dk")),
        *(Value("load_do", reader, "do", name="do") for reader in ("mma_dp", "mma_dv", "await_dv")),
        *(Value("load_rows", reader, "rows", name="rows") for reader in ("read_lse", "read_delta", "exp", "ds")),
        *_reading(_delta_is_early(analysed)),
        Value("mma_s", "mma_dp", None),  # scores are wanted first
        Value("mma_s", "await_s", "scores"),
        *(Value(before, after, "scores") for before, after in pairwise(chain)),
        Value("exp", "mma_dv", "p"),
        Value("mma_dp", "await_dp", "dp"),
        Value("exp", "ds", "scores"),
        Value("await_dp", "ds", "dp"),
        Value("ds", "share_ds", "ds"),
        Value("ds", "mma_dk", "ds"),
        Value("share_ds", "mma_dq", "ds_out", name="ds_out"),
        Value("share_ds", "mma_dv", None),  # which works while the warpgroups meet
        *(Value("mma_dv", after, None) for after in ("mma_dk", "mma_dq")),
        *_accumulators(),
        Value("mma_dq", "await_dq", "dq"),
        *(Value("await_dq", stage, "dq") for stage in staged),
        *(Value(f"stage_dq_{at}", f"reduce_dq_{at}", "dq_out", name=f"dq_out_{at}") for at in chunks),
        *(Value(before, after, None) for before, after in pairwise(staged)),
        *((Value("ds", "add_shares", "strips", name="strips"),) if shape.strips else ()),
        # A step ends before the next begins: its products would want registers beside those of this one.
        *(Value(one, first, None, distance=1) for one in last for first in ("read_lse", "mma_s", "mma_dp")),
    )


def _reading(is_early: bool) -> tuple[Value, ...]:
    """Numbers of rows. What a warp asks shared memory for waits behind the products that it began before: so these come first of
    a step, or when its probabilities are there and nothing is under way."""
    first, last = ("read_lse", "mma_s") if is_early else ("exp", "await_dp")
    return (
        Value("read_lse", "exp", "lse"),
        Value("read_delta", "ds", "delta"),
        *(Value(before, after, None) for before, after in (("read_lse", "mma_s"), (first, "read_delta"), ("read_delta", last))),
    )


def _accumulators() -> tuple[Value, ...]:
    """dV and dK: summed over the steps of a work tile, stored at its end."""
    return tuple(
        value
        for name in ("dv", "dk")
        for value in (
            Value(f"mma_{name}", f"await_{name}", name),
            Value(f"await_{name}", f"mma_{name}", name, distance=1),
            Value(f"await_{name}", f"store_{name}", name),
        )
    )
