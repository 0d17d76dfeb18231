"""The forward graph for one query tile: two warpgroups take even and odd key tiles of it, two key tiles a step.

Where two query tiles share a stream of keys, a score's way through softmax and both products is one circle: S may not be written
again before P, which lies over it, is used up. Here two tiles of S and two of P, beside one of O, fill tensor memory, and the
circle is cut. The price: keys and values serve half as many rows, the running maximum passes from one warpgroup to the other, and
each keeps a sum of its own. In this graph a lane is a key tile of a step. Keys and values have slots of their own, because values
are needed a step later: in one ring the loader would wait for a slot of theirs before it fetched the next keys.
"""

from itertools import pairwise

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.peel import fuses_score
from attnspec.lowering.analysis.staging import stage
from attnspec.lowering.dataflow.forward import ELEMENT_BYTES, NARROW, SWIZZLE_ELEMENTS, TILE_KV, TILE_Q, padded
from attnspec.lowering.dataflow.graph import Buffer, Dataflow, Operation, Value

from attnspec.language.expr import Name

LANES = 2
ROW_BYTES = 4 * TILE_Q  # a number for each row


def draw_one_query_tile(analysed: Analysed) -> Dataflow:
    """The graph of a variant; sizes are of padded tiles."""
    operations = [Operation("load_q", "tma", "tile")]
    values: list[Value] = []
    for lane in range(LANES):
        operations += _operations(analysed, lane)
        values += _values(analysed, lane)
    operations += [Operation("finish", "threads", "tile"), Operation("store_o", "tma", "tile")]
    values += [Value("mma_pv_tail[1]", "finish", "o", name="o_end"), Value("finish", "store_o", "o_out", name="out")]
    return Dataflow(
        direction="forward",
        tile_q=TILE_Q,
        tile_kv=TILE_KV,
        query_tiles=1,
        operations=tuple(operations),
        buffers=_buffers(analysed),
        values=tuple(values),
        key_tiles=LANES,
    )


def _tile_bytes(width: int) -> int:
    return TILE_KV * padded(width, SWIZZLE_ELEMENTS) * ELEMENT_BYTES


def _buffers(analysed: Analysed) -> tuple[Buffer, ...]:
    key_bytes, value_bytes = _tile_bytes(analysed.spec.head_dim), _tile_bytes(analysed.spec.head_dim_v)
    maxima = (Buffer(f"max{lane}", "shared", ROW_BYTES) for lane in range(LANES if analysed.bounds.needs_row_max else 0))
    return (
        Buffer("q", "shared", key_bytes),
        Buffer("k", "shared", key_bytes),
        Buffer("v", "shared", value_bytes),
        Buffer("o_out", "shared", value_bytes),
        Buffer("stats", "shared", 2 * ROW_BYTES),  # f32 (rescale factor or row sum), then f32 row max
        *maxima,
        Buffer("s", "tensor", TILE_KV),
        Buffer("p", "tensor", NARROW.p_columns),
        Buffer("o", "tensor", padded(analysed.spec.head_dim_v, 16)),
        *_staged_buffers(analysed),
        Buffer("scores", "register", 4 * TILE_KV),
        Buffer("row", "register", 2 * 4),
    )


def _staged_buffers(analysed: Analysed) -> tuple[Buffer, ...]:
    """Values of keys and distances, which the threads of a lane bring and read in the same step."""
    size = stage(analysed.spec).bytes(TILE_Q, TILE_KV)
    return (Buffer("staged", "shared", size),) if size else ()


def _chain(analysed: Analysed, lane: int) -> list[Operation]:
    """What happens to a tile of scores before its row maximum, in order."""
    spec = analysed.spec
    has_score = spec.score != Name("score", "float") and not fuses_score(analysed)
    score = [Operation("score", "threads", "step", lane, "score of the file")] if has_score else []
    note = "keys past the length" if spec.mask is None else "mask of the file, and keys past the length"
    return [Operation("load_s", "threads", "step", lane), *score, Operation("mask", "threads", "step", lane, note)]


def _operations(analysed: Analysed, lane: int) -> list[Operation]:
    maximum = ("row_max", "share_scale") if analysed.bounds.needs_row_max else ()
    rescale = ("rescale",) if analysed.bounds.needs_row_max else ()
    note = "score of the file, and exponential, a chunk after the other" if fuses_score(analysed) else ""
    return [
        *(Operation(kind, "tma", "step", lane) for kind in ("load_k", "load_v")),
        Operation("mma_qk", "tensor", "step", lane),
        *_chain(analysed, lane),
        *(Operation(kind, "threads", "step", lane) for kind in maximum),
        *(Operation(kind, "threads", "step", lane, note) for kind in ("exp_head", "exp_tail")),
        Operation("row_sum", "threads", "step", lane),
        Operation("share_row", "threads", "tile", lane),
        *(Operation(kind, "threads", "step", lane) for kind in rescale),
        *(Operation(kind, "tensor", "step", lane) for kind in ("mma_pv_head", "mma_pv_tail")),
    ]


def _values(analysed: Analysed, i: int) -> list[Value]:
    chain = [operation.name for operation in _chain(analysed, i)]
    head, tail = (0, NARROW.head_columns), (NARROW.head_columns, NARROW.p_columns)
    exponentials = [f"{kind}[{i}]" for kind in ("exp_head", "exp_tail")]
    return [
        Value("load_q", f"mma_qk[{i}]", "q", name="q"),
        Value(f"load_k[{i}]", f"mma_qk[{i}]", "k", name="k"),
        *(Value(f"load_v[{i}]", f"mma_pv_{half}[{i}]", "v", name="v") for half in ("head", "tail")),
        Value(f"mma_qk[{i}]", f"load_s[{i}]", "s", name="s"),
        *(Value(before, after, "scores") for before, after in pairwise(chain)),
        *(Value(chain[0], reader, "staged", name="staged") for reader in chain[1:] if _staged_buffers(analysed)),
        *(Value(chain[-1], name, "scores") for name in exponentials),
        *(Value(name, f"row_sum[{i}]", "scores") for name in exponentials),
        Value(f"exp_head[{i}]", f"exp_tail[{i}]", "scores"),  # the kernel goes through a row from its first key on
        Value(f"row_sum[{i}]", f"row_sum[{i}]", "row", distance=1),
        Value(f"row_sum[{i}]", f"share_row[{i}]", "row"),
        *(_maximum_values(chain[-1], i) if analysed.bounds.needs_row_max else _bounded_values(i)),
        Value(f"exp_head[{i}]", f"mma_pv_head[{i}]", "p", name="p_head", part=head),
        Value(f"exp_tail[{i}]", f"mma_pv_tail[{i}]", "p", name="p_tail", part=tail),
        Value(f"mma_pv_head[{i}]", f"mma_pv_tail[{i}]", "o", name="o_half"),
        Value(f"share_row[{i}]", "finish", "stats", name=f"row{i}"),
    ]


def _maximum_values(masked: str, i: int) -> list[Value]:
    """The running maximum goes from one lane to the other, and O is rescaled for each lane's key tile in turn."""
    other, later = (i + 1) % LANES, int(i + 1 == LANES)
    readers = ("share_scale", "exp_head", "exp_tail", "row_sum", "share_row")
    return [
        Value(masked, f"row_max[{i}]", "scores"),
        *(Value(f"row_max[{i}]", f"{kind}[{i}]", "row") for kind in readers),
        Value(f"row_max[{i}]", f"row_max[{other}]", f"max{i}", distance=later, name=f"max{i}"),
        Value(f"share_scale[{i}]", f"rescale[{i}]", "stats", name="scale", part=(0, ROW_BYTES)),
        Value(f"mma_pv_tail[{i}]", f"rescale[{other}]", "o", distance=later, name=f"o_step{i}", seldom=True),
        Value(f"rescale[{i}]", f"mma_pv_head[{i}]", "o", name="rescaled"),
    ]


def _bounded_values(i: int) -> list[Value]:
    """O is summed up as it stands, key tile after key tile."""
    other, later = (i + 1) % LANES, int(i + 1 == LANES)
    return [Value(f"mma_pv_tail[{i}]", f"mma_pv_head[{other}]", "o", distance=later, name=f"o_sum{i}")]
