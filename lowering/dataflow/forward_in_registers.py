"""The forward graph of a chip whose tensor core leaves its results in registers of the warps that started it (Hopper, wgmma).

A query tile belongs to two or three warpgroups of 64 rows, each with its own scores, probabilities and output in registers, which
share one stream of key tiles. The tensor core works beside the warps: what it makes of a step is waited for by an operation
of its own, `await_s` and `await_o`, and only then are the keys and values it read free.

Where shared memory is scarce, the output is staged over the queries: each warpgroup writes its own rows over those of q, which
nobody reads after its last scores. Then the place of q is free only when the output has been stored, which `free_q` stands for:
in tiles that have steps, `load_q` waits for it, and it for the output of the tile before.
"""

from dataclasses import dataclass
from itertools import pairwise

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.sorted_masks import sought_places
from attnspec.lowering.analysis.staging import stage
from attnspec.lowering.dataflow.graph import GROUP_ROWS, Buffer, Dataflow, Operation, Value

from attnspec.language.expr import Name, tensors_read

SWIZZLE_ELEMENTS = 64  # a 128-byte row of a swizzled shared tile
ELEMENT_BYTES = 2
F32 = 4
GROUP_THREADS = 128
BARRIER = 8  # bytes
BOARD_SLOTS, MOST_POSTED = 2, 32  # tiles whose places are posted; places, a lane each


@dataclass(frozen=True)
class TileShape:
    """warpgroups: of a query tile, 64 rows each; keys: of a step."""

    warpgroups: int
    keys: int


# By the largest widths of q and k, and of v: the largest tiles whose scores, probabilities and output fit a thread's registers,
# of which there are 160 with three warpgroups and 240 with two (FA3, tile sizes), and whose stream fits shared memory; then such
# whose stream fits in some storage alone.
SHAPES = (
    ((64, 64), (TileShape(3, 128),)),
    ((192, 128), (TileShape(2, 128),)),
    ((192, 192), (TileShape(2, 96), TileShape(2, 112))),
    ((256, 256), (TileShape(2, 64), TileShape(2, 80))),
)

BOUNDED, BOUNDED_WIDTH = TileShape(2, 160), 128  # measured on an H200: 5 % more than 128 keys with softcap
# Measured on an H200, where a tensor says with which key a row begins: documents of 512 in tiles of 192 rows, which lie across
# two or three of them, take 16 % longer, those of 2,048 2 %.
FEW_ROWS = TileShape(2, 128)


@dataclass(frozen=True)
class Storage:
    """What is where in shared memory. separate: keys and values in rings of their own, whose slots are as large as what comes
    there; otherwise they take turns in one. over_query: the output is staged over the queries, if it is no larger.
    shape: which of the tiles that there are for such heads."""

    separate: bool = False
    over_query: bool = False
    shape: int = 0


PLAIN = Storage()


def tile_shapes(analysed: Analysed) -> tuple[TileShape, ...]:
    """Rows and keys of tiles that there are. A bounded score needs no maximum, and leaves registers for more keys a step."""
    spec = analysed.spec
    fits = (shapes for (width, width_v), shapes in SHAPES if spec.head_dim <= width and spec.head_dim_v <= width_v)
    found = next(fits, SHAPES[-1][1])
    if found[0].warpgroups > FEW_ROWS.warpgroups and _begins_by_tensor(analysed):
        return (FEW_ROWS,)
    is_wide = 64 < spec.head_dim <= BOUNDED_WIDTH and 64 < spec.head_dim_v <= BOUNDED_WIDTH
    return (BOUNDED,) if is_wide and not analysed.bounds.needs_row_max else found


def _begins_by_tensor(analysed: Analysed) -> bool:
    """Whether the first key of a row hangs on a tensor's values."""
    return any(tensors_read(found.first) for found in analysed.keys.seen)


def _shape(analysed: Analysed, storage: Storage) -> TileShape:
    return tile_shapes(analysed)[storage.shape]


def draw_forward_in_registers(analysed: Analysed, storage: Storage = PLAIN) -> Dataflow:
    """The forward graph of a variant. What the variant lacks is not in it: a score that is q k as it stands, a row maximum where
    the score is bounded."""
    shape = _shape(analysed, storage)
    return Dataflow(
        direction="forward",
        tile_q=shape.warpgroups * GROUP_ROWS,
        tile_kv=shape.keys,
        query_tiles=1,
        operations=_operations(analysed, storage),
        buffers=_buffers(analysed, storage),
        values=_values(analysed, storage),
    )


def _padded(length: int) -> int:
    return -(-length // SWIZZLE_ELEMENTS) * SWIZZLE_ELEMENTS


def _tile_bytes(analysed: Analysed, rows: int) -> tuple[int, int]:
    """Bytes of so many rows of queries or keys, and of values or outputs, in shared memory."""
    spec = analysed.spec
    return rows * _padded(spec.head_dim) * ELEMENT_BYTES, rows * _padded(spec.head_dim_v) * ELEMENT_BYTES


def board_places(analysed: Analysed) -> int:
    """Places in sorted tensors that the loading warp, a tile ahead, seeks for those who attend to a tile; 0: they find their own.

    They are no values of the graph: like a tile's number, they belong to whoever deals tiles out.
    """
    count = len(sought_places(analysed))
    return count if count <= MOST_POSTED else 0


def board_bytes(places: int) -> int:
    """Two tiles' places, and of each a barrier for those who read and one for who writes."""
    return BOARD_SLOTS * (2 * BARRIER + -(-places // 2) * 2 * F32)


def _staged_bytes(analysed: Analysed, storage: Storage) -> int:
    """Of a warpgroup: its threads bring the values of all keys, and as many distances' as rows and keys, in whole rounds."""
    words = (value.words(GROUP_ROWS, _shape(analysed, storage).keys) for value in stage(analysed.spec).values)
    return sum(F32 * GROUP_THREADS * -(-count // GROUP_THREADS) for count in words)


def fits_over_query(analysed: Analysed) -> bool:
    """Whether an output tile is no larger than a tile of queries."""
    query_bytes, output_bytes = _tile_bytes(analysed, GROUP_ROWS)
    return output_bytes <= query_bytes


def _stream(analysed: Analysed, storage: Storage) -> tuple[Buffer, ...]:
    """Slots that keys and values come through."""
    both = _tile_bytes(analysed, _shape(analysed, storage).keys)
    if storage.separate:
        return tuple(Buffer(name, "shared", size) for name, size in zip("kv", both, strict=True))
    return (Buffer("kv", "shared", max(both)),)


def _buffers(analysed: Analysed, storage: Storage) -> tuple[Buffer, ...]:
    shape = _shape(analysed, storage)
    rows = shape.warpgroups * GROUP_ROWS
    query_bytes, output_bytes = _tile_bytes(analysed, rows)
    staged = shape.warpgroups * _staged_bytes(analysed, storage)
    return (
        Buffer("q", "shared", query_bytes),
        *_stream(analysed, storage),
        Buffer("o_out", "shared", output_bytes, over="q" if storage.over_query else None),
        *((Buffer("staged", "shared", staged),) if staged else ()),
        *((Buffer("board", "shared", board_bytes(places)),) if (places := board_places(analysed)) else ()),
        # A thread has an eighth of the keys of four rows' scores: two rows, a pair of keys in eight.
        Buffer("scores", "register", F32 * shape.keys // 2),
        Buffer("p", "register", ELEMENT_BYTES * shape.keys // 2),
        Buffer("o", "register", F32 * -(-analysed.spec.head_dim_v // 8) * 4),
        Buffer("row", "register", 2 * 2 * F32),
    )


def _chain(analysed: Analysed) -> list[Operation]:
    """What happens to a tile of scores before its row maximum, in order."""
    spec = analysed.spec
    chain = [Operation("await_s", "threads", "step")]
    if spec.score != Name("score", "float"):
        chain.append(Operation("score", "threads", "step", note="score of the file"))
    note = "keys past the length" if spec.mask is None else "mask of the file, and keys past the length"
    chain.append(Operation("mask", "threads", "step", note=note))
    return chain


def _operations(analysed: Analysed, storage: Storage) -> tuple[Operation, ...]:
    has_maximum = analysed.bounds.needs_row_max
    return (
        *((Operation("free_q", "threads", "tile"),) if storage.over_query else ()),
        Operation("load_q", "tma", "tile"),
        Operation("load_k", "tma", "step"),
        Operation("load_v", "tma", "step"),
        Operation("mma_qk", "tensor", "step"),
        *_chain(analysed),
        *(Operation(kind, "threads", "step") for kind in (("row_max",) if has_maximum else ())),
        *(Operation(kind, "threads", "step") for kind in ("exp", "row_sum")),
        *(Operation(kind, "threads", "step") for kind in (("rescale",) if has_maximum else ())),
        Operation("convert", "threads", "step"),
        Operation("mma_pv", "tensor", "step"),
        Operation("await_o", "threads", "step"),
        Operation("finish", "threads", "tile"),
        Operation("store_o", "tma", "tile"),
    )


def _values(analysed: Analysed, storage: Storage) -> tuple[Value, ...]:
    chain = _chain(analysed)
    has_staged = bool(stage(analysed.spec).values)
    return (
        # First of what load_q waits for: it must not announce bytes at a barrier whose last ones may be on their way still.
        *((Value("free_q", "load_q", None, name="room"),) if storage.over_query else ()),
        *(Value("load_q", reader, "q", name="q") for reader in ("mma_qk", "await_s")),
        *_streamed(analysed, storage),
        Value("mma_qk", "await_s", "scores"),
        *(Value(before.name, after.name, "scores") for before, after in pairwise(chain)),
        *(Value("await_s", reader.name, "staged", name="staged") for reader in chain[1:] if has_staged),
        Value(chain[-1].name, "exp", "scores"),
        Value("exp", "row_sum", "scores"),
        Value("exp", "convert", "scores"),
        *(Value("mma_qk", last, "scores") for last in ("row_sum", "convert")),  # the registers stay taken until then
        Value("row_sum", "row_sum", "row", distance=1),
        Value("row_sum", "finish", "row"),
        Value("convert", "mma_pv", "p"),
        Value("mma_pv", "await_o", "o"),
        Value("await_o", "finish", "o"),
        *(_maximum_values(chain[-1].name) if analysed.bounds.needs_row_max else _bounded_values()),
        Value("finish", "store_o", "o_out", name="out"),
        *((Value("store_o", "free_q", None, distance=1),) if storage.over_query else ()),
    )


def _streamed(analysed: Analysed, storage: Storage) -> list[Value]:
    """Keys and values: each fills a slot of its own, or the first bytes of one that serves both.

    Three warpgroups give keys back when they have the row's maximum: what signals is not moved across a wait, and so the wait for
    the product with V, which no arithmetic holds back, comes no earlier either.
    """
    sizes = dict(zip("kv", _tile_bytes(analysed, _shape(analysed, storage).keys), strict=True))
    found = []
    late = _shape(analysed, storage).warpgroups > FEW_ROWS.warpgroups and analysed.bounds.needs_row_max
    of_keys = ("mma_qk", "await_s", *(("row_max",) if late else ()))
    for name, readers in (("k", of_keys), ("v", ("mma_pv", "await_o"))):
        buffer, part = (name, None) if storage.separate else ("kv", (0, sizes[name]))
        found += [Value(f"load_{name}", reader, buffer, name=name, part=part) for reader in readers]
    return found


def _maximum_values(masked: str) -> list[Value]:
    """The running maximum, and the rescaling of O that it asks for."""
    return [
        Value(masked, "row_max", "scores"),
        *(Value("row_max", reader, "row") for reader in ("exp", "row_sum", "rescale", "finish")),
        Value("row_max", "row_max", "row", distance=1),
        Value("await_o", "rescale", "o", distance=1),
        # It is a branch, and no instruction crosses one: so conversions stand beside exponentials, which leave their pipe idle.
        Value("convert", "rescale", None),
        Value("rescale", "mma_pv", "o"),
    ]


def _bounded_values() -> list[Value]:
    """O is summed up as it stands."""
    return [Value("await_o", "mma_pv", "o", distance=1)]
