"""The forward graph: O = softmax(score(q k)) v for two query tiles that share one stream of key tiles.

Two query tiles in flight let one be multiplied while the other is exponentiated (FA4, forward pipeline). P is written in two
pieces, head and tail, so that the product with V starts before all of a row is exponentiated.
"""

from itertools import pairwise

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.graph import Buffer, Dataflow, Operation, Value

from attnspec.language.expr import Name

TILE_Q = 128  # rows of one tensor operation, and of tensor memory
TILE_KV = 128
QUERY_TILES = 2
HEAD_KEYS = 96  # keys of P whose arrival lets the product with V start (FA4: three quarters)
ELEMENT_BYTES = 2  # bf16 and fp16
SWIZZLE_ELEMENTS = 64  # a 128-byte row of a swizzled shared tile
HEAD_COLUMNS = HEAD_KEYS * ELEMENT_BYTES // 4
P_COLUMNS = TILE_KV * ELEMENT_BYTES // 4


def draw_forward(analysed: Analysed) -> Dataflow:
    """The forward graph of a variant.

    There is no score operation where the score is q k as it stands, and no row maximum where the score is bounded. There is
    always a mask: lengths are free, so the last key tile may end past the keys. All sizes are of padded tiles.
    """
    operations, values = [*_shared_loads()], []
    for tile in range(QUERY_TILES):
        operations += _operations(analysed, tile)
        values += _values(analysed, tile)
    return Dataflow(
        direction="forward",
        tile_q=TILE_Q,
        tile_kv=TILE_KV,
        query_tiles=QUERY_TILES,
        operations=tuple(operations),
        buffers=_buffers(analysed),
        values=tuple(values),
    )


def padded(length: int, unit: int) -> int:
    """The next multiple of unit."""
    return -(-length // unit) * unit


def _tile_bytes(analysed: Analysed) -> tuple[int, int]:
    """Bytes of a key tile and of a value tile in shared memory."""
    row, row_v = (padded(dim, SWIZZLE_ELEMENTS) * ELEMENT_BYTES for dim in (analysed.spec.head_dim, analysed.spec.head_dim_v))
    return TILE_KV * row, TILE_KV * row_v


def _buffers(analysed: Analysed) -> tuple[Buffer, ...]:
    key_bytes, value_bytes = _tile_bytes(analysed)
    return (
        Buffer("q", "shared", key_bytes // TILE_KV * TILE_Q),
        Buffer("kv", "shared", max(key_bytes, value_bytes)),
        Buffer("o_out", "shared", value_bytes // TILE_KV * TILE_Q),
        Buffer("stats", "shared", 2 * 4 * TILE_Q),  # f32 (rescale factor or row sum), then f32 row max
        Buffer("s", "tensor", TILE_KV),
        Buffer("p", "tensor", P_COLUMNS),
        Buffer("o", "tensor", padded(analysed.spec.head_dim_v, 16)),
        Buffer("scores", "register", 4 * TILE_KV),
        Buffer("row", "register", 2 * 4),
    )


def _shared_loads() -> tuple[Operation, ...]:
    return Operation("load_k", "tma", "step"), Operation("load_v", "tma", "step")


def _chain(analysed: Analysed, tile: int) -> list[Operation]:
    """What happens to a tile of scores before its row maximum, in order."""
    spec = analysed.spec
    chain = [Operation("load_s", "threads", "step", tile)]
    if spec.score != Name("score", "float"):
        chain.append(Operation("score", "threads", "step", tile, "score of the file"))
    note = "keys past the length" if spec.mask is None else "mask of the file, and keys past the length"
    chain.append(Operation("mask", "threads", "step", tile, note))
    return chain


def _operations(analysed: Analysed, tile: int) -> list[Operation]:
    maximum = ("row_max", "share_scale") if analysed.bounds.needs_row_max else ()
    rescale = ("rescale",) if analysed.bounds.needs_row_max else ()
    return [
        Operation("load_q", "tma", "tile", tile),
        Operation("mma_qk", "tensor", "step", tile),
        *_chain(analysed, tile),
        *(Operation(kind, "threads", "step", tile) for kind in (*maximum, "exp_head", "exp_tail", "row_sum")),
        Operation("share_row", "threads", "tile", tile),
        *(Operation(kind, "threads", "step", tile) for kind in rescale),
        Operation("mma_pv_head", "tensor", "step", tile),
        Operation("mma_pv_tail", "tensor", "step", tile),
        Operation("finish", "threads", "tile", tile),
        Operation("store_o", "tma", "tile", tile),
    ]


def _values(analysed: Analysed, i: int) -> list[Value]:
    chain = _chain(analysed, i)
    key_bytes, value_bytes = _tile_bytes(analysed)
    head, tail = (0, HEAD_COLUMNS), (HEAD_COLUMNS, P_COLUMNS)
    return [
        Value(f"load_q[{i}]", f"mma_qk[{i}]", "q", name="q"),
        Value("load_k", f"mma_qk[{i}]", "kv", name="k", part=(0, key_bytes)),
        Value("load_v", f"mma_pv_head[{i}]", "kv", name="v", part=(0, value_bytes)),
        Value("load_v", f"mma_pv_tail[{i}]", "kv", name="v", part=(0, value_bytes)),
        Value(f"mma_qk[{i}]", f"load_s[{i}]", "s", name="s"),
        *(Value(before.name, after.name, "scores") for before, after in pairwise(chain)),
        *_row_values(chain[-1].name, i),
        *(_maximum_values(chain[-1].name, i) if analysed.bounds.needs_row_max else _bounded_values(i)),
        Value(f"exp_head[{i}]", f"mma_pv_head[{i}]", "p", name="p_head", part=head),
        Value(f"exp_tail[{i}]", f"mma_pv_tail[{i}]", "p", name="p_tail", part=tail),
        Value(f"share_row[{i}]", f"finish[{i}]", "stats", name="row"),
        Value(f"mma_pv_head[{i}]", f"mma_pv_tail[{i}]", "o", name="o_half"),
        Value(f"mma_pv_tail[{i}]", f"finish[{i}]", "o", name="o"),
        Value(f"finish[{i}]", f"store_o[{i}]", "o_out", name="out"),
    ]


def _row_values(masked: str, i: int) -> list[Value]:
    """What passes in registers from the masked scores to the row's sum: scores, exponentials, running sum."""
    return [
        *(Value(masked, f"{kind}[{i}]", "scores") for kind in ("exp_head", "exp_tail")),
        *(Value(f"{kind}[{i}]", f"row_sum[{i}]", "scores") for kind in ("exp_head", "exp_tail")),
        Value(f"row_sum[{i}]", f"row_sum[{i}]", "row", distance=1),
        Value(f"row_sum[{i}]", f"share_row[{i}]", "row"),
    ]


def _maximum_values(masked: str, i: int) -> list[Value]:
    """The running maximum, and the rescaling of O that it asks for; a bounded score has neither (see `bounds`)."""
    readers = ("share_scale", "exp_head", "exp_tail", "row_sum", "share_row")
    return [
        Value(masked, f"row_max[{i}]", "scores"),
        *(Value(f"row_max[{i}]", f"{kind}[{i}]", "row") for kind in readers),
        Value(f"row_max[{i}]", f"row_max[{i}]", "row", distance=1),
        Value(f"share_scale[{i}]", f"rescale[{i}]", "stats", name="scale", part=(0, 4 * TILE_Q)),
        Value(f"mma_pv_tail[{i}]", f"rescale[{i}]", "o", distance=1, name="o_step"),
        Value(f"rescale[{i}]", f"mma_pv_head[{i}]", "o", name="rescaled"),
    ]


def _bounded_values(i: int) -> list[Value]:
    """O is summed up as it stands."""
    return [Value(f"mma_pv_tail[{i}]", f"mma_pv_head[{i}]", "o", distance=1, name="o_sum")]
