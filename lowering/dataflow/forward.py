"""The forward graph: O = softmax(score(q k)) v for one or two query tiles that share one stream of key tiles.

Two query tiles in flight let one be multiplied while the other is exponentiated (FA4, forward pipeline). P is written in two
pieces, head and tail, so that the product with V starts before all of a row is exponentiated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.peel import fuses_score
from attnspec.lowering.analysis.staging import MOST, Staging, stage
from attnspec.lowering.dataflow.graph import Buffer, Dataflow, Operation, Value

from attnspec.language.expr import Name
from attnspec.language.spec import Spec

TILE_Q = 128  # rows of one tensor operation, and of tensor memory
TILE_KV = 128
ELEMENT_BYTES = 2  # bf16 and fp16
SWIZZLE_ELEMENTS = 64  # a 128-byte row of a swizzled shared tile
TYPE_BYTES = {"bf16": 2, "fp16": 2, "f32": 4, "i32": 4, "bool": 1}  # of an element of a declared tensor
LOAD_TILE = "load_tile"  # and the number of the tensor: brings a query tile's part of it for a step's keys


@dataclass(frozen=True)
class TileShape:
    """query_tiles: in flight; keys: of a step; head_keys: those whose arrival in P lets the product with V start."""

    query_tiles: int
    keys: int
    head_keys: int

    @property
    def p_columns(self) -> int:
        """32-bit columns of a tile of P."""
        return self.keys * ELEMENT_BYTES // 4

    @property
    def head_columns(self) -> int:
        """Those of its head."""
        return self.head_keys * ELEMENT_BYTES // 4


@dataclass(frozen=True)
class TensorTiles:
    """What TMA brings of tensors that have an element for each query and key (see `staging`).

    count: of so many tensors; in_turn: query tiles have one slot of shared memory, which they use in turn, not one each; alone:
    no values of keys and distances are staged beside them.
    """

    count: int = 0
    in_turn: bool = False
    alone: bool = False


NO_TILES = TensorTiles()
NARROW = TileShape(2, TILE_KV, 96)  # FA4: two query tiles in flight, three quarters of P
WIDE = TileShape(1, 64, 32)  # heads of 256: q, the output and three tiles of 64 keys take 224 KB of shared memory
LARGEST_NARROW = (192, 128)  # width of query and key, of value


def tile_shape(spec: Spec) -> TileShape:
    """The largest tiles that fit the memory of a multiprocessor."""
    fits = spec.head_dim <= LARGEST_NARROW[0] and spec.head_dim_v <= LARGEST_NARROW[1]
    return NARROW if fits else WIDE


def draw_forward(analysed: Analysed, ctas: int = 1, tiles: TensorTiles = NO_TILES) -> Dataflow:
    """The forward graph of a variant.

    ctas: 2 for a pair that shares keys and values (FA4, 2-CTA forward): one tensor operation multiplies query tiles of both, and
    each CTA holds half of the keys of a tile of K, and half of the columns of a tile of V.
    There is no score operation where the score is q k as it stands, or part of the exponentials (see `fuses_score`), and no row
    maximum where the score is bounded. There is always a mask: lengths are free, so the last key tile may end past the keys.
    All sizes are of padded tiles.
    """
    operations, values = [*_shared_loads()], []
    shape = tile_shape(analysed.spec)
    for tile in range(shape.query_tiles):
        operations += _operations(analysed, tile, ctas, tiles.count)
        values += _values(analysed, tile, ctas, tiles)
    return Dataflow(
        direction="forward",
        tile_q=TILE_Q,
        tile_kv=shape.keys,
        query_tiles=shape.query_tiles,
        operations=tuple(operations),
        buffers=_buffers(analysed, ctas, tiles),
        values=tuple(values),
        ctas=ctas,
    )


def padded(length: int, unit: int) -> int:
    """The next multiple of unit."""
    return -(-length // unit) * unit


def output_columns(head_dim_v: int, ctas: int) -> int:
    """Columns of O: a tensor operation takes 16 at a time, of a CTA."""
    return padded(head_dim_v, 16 * ctas)


def _row_bytes(columns: int) -> int:
    return padded(columns, SWIZZLE_ELEMENTS) * ELEMENT_BYTES


def _stream_bytes(analysed: Analysed, ctas: int) -> tuple[int, int]:
    """Bytes of a CTA's share of a tile of keys, and of one of values, in shared memory: rows of one, columns of the other."""
    spec, keys = analysed.spec, tile_shape(analysed.spec).keys
    return keys // ctas * _row_bytes(spec.head_dim), keys * _row_bytes(output_columns(spec.head_dim_v, ctas) // ctas)


def _buffers(analysed: Analysed, ctas: int, tiles: TensorTiles) -> tuple[Buffer, ...]:
    shape = tile_shape(analysed.spec)
    query_bytes, output_bytes = (TILE_Q * _row_bytes(dim) for dim in (analysed.spec.head_dim, analysed.spec.head_dim_v))
    return (
        Buffer("q", "shared", query_bytes),
        Buffer("kv", "shared", max(_stream_bytes(analysed, ctas))),
        Buffer("o_out", "shared", output_bytes),
        *_tile_buffers(analysed.spec, tiles),
        Buffer("stats", "shared", 2 * 4 * TILE_Q),  # f32 (rescale factor or row sum), then f32 row max
        Buffer("s", "tensor", shape.keys),
        Buffer("p", "tensor", shape.p_columns),
        Buffer("o", "tensor", output_columns(analysed.spec.head_dim_v, ctas)),
        *_staged_buffers(analysed, tiles),
        Buffer("scores", "register", 4 * shape.keys),
        Buffer("row", "register", 2 * 4),
    )


def stage_beside(spec: Spec, tiles: TensorTiles) -> Staging:
    """What is brought to shared memory of a forward that has those tiles."""
    return stage(spec, tiles.count, 0 if tiles.alone else MOST)


def _staged_buffers(analysed: Analysed, tiles: TensorTiles) -> tuple[Buffer, ...]:
    """Values of keys and distances, which the threads of a query tile bring and read in the same step."""
    size = stage_beside(analysed.spec, tiles).bytes(TILE_Q, tile_shape(analysed.spec).keys)
    return (Buffer("staged", "shared", size),) if size else ()


def _tile_buffers(spec: Spec, tiles: TensorTiles) -> Iterator[Buffer]:
    for at, size in enumerate(tile_sizes(spec, tiles.count)):
        yield Buffer(f"tile{at}", "shared", size, in_turn=tiles.in_turn)


def tile_sizes(spec: Spec, tiles: int) -> list[int]:
    """Bytes of a query tile's part of each tensor of which tiles are brought: boxes of 128 bytes of each row."""
    types = {tensor.name: tensor.dtype for tensor in spec.tensors}
    keys = tile_shape(spec).keys
    found = [value.read.tensor for value in stage(spec, tiles).tiles]
    return [TILE_Q * padded(keys * TYPE_BYTES[types[name]], 2 * SWIZZLE_ELEMENTS) for name in found]


def _tile_readers(analysed: Analysed, lane: int, in_score: bool, in_turn: bool) -> list[str]:
    """Operations that read a tensor's tile: the mask always, the score where it does, and where a score has no maximum the
    exponentials, with which it may be finished though the graph has it apart; but not in turn (`softmax_step.is_fused`)."""
    kinds = [item.kind for item in _chain(analysed, lane) if item.kind == "mask" or (item.kind == "score" and in_score)]
    kinds += [] if in_turn or analysed.bounds.needs_row_max else ["exp_head", "exp_tail"]
    return [f"{kind}[{lane}]" for kind in kinds]


def _shared_loads() -> tuple[Operation, ...]:
    return Operation("load_k", "tma", "step"), Operation("load_v", "tma", "step")


def _chain(analysed: Analysed, tile: int) -> list[Operation]:
    """What happens to a tile of scores before its row maximum, in order."""
    spec = analysed.spec
    chain = [Operation("load_s", "threads", "step", tile)]
    if spec.score != Name("score", "float") and not fuses_score(analysed):
        chain.append(Operation("score", "threads", "step", tile, "score of the file"))
    note = "keys past the length" if spec.mask is None else "mask of the file, and keys past the length"
    chain.append(Operation("mask", "threads", "step", tile, note))
    return chain


def _operations(analysed: Analysed, tile: int, ctas: int, tiles: int) -> list[Operation]:
    maximum = ("row_max", "share_scale") if analysed.bounds.needs_row_max else ()
    rescale = ("rescale",) if analysed.bounds.needs_row_max else ()
    note = "score of the file, and exponential, a chunk after the other" if fuses_score(analysed) else ""
    exponentials = [Operation(kind, "threads", "step", tile, note) for kind in ("exp_head", "exp_tail")]
    return [
        Operation("load_q", "tma", "tile", tile),
        *(Operation(f"{LOAD_TILE}{at}", "tma", "step", tile) for at in range(len(tile_sizes(analysed.spec, tiles)))),
        Operation("mma_qk", "tensor", "step", tile, joint=ctas > 1),
        *_chain(analysed, tile),
        *(Operation(kind, "threads", "step", tile) for kind in maximum),
        *exponentials,
        Operation("row_sum", "threads", "step", tile),
        Operation("share_row", "threads", "tile", tile),
        *(Operation(kind, "threads", "step", tile) for kind in rescale),
        Operation("mma_pv_head", "tensor", "step", tile, joint=ctas > 1),
        Operation("mma_pv_tail", "tensor", "step", tile, joint=ctas > 1),
        Operation("finish", "threads", "tile", tile),
        Operation("store_o", "tma", "tile", tile),
    ]


def _values(analysed: Analysed, i: int, ctas: int, tiles: TensorTiles) -> list[Value]:
    chain = _chain(analysed, i)
    shape = tile_shape(analysed.spec)
    key_bytes, value_bytes = _stream_bytes(analysed, ctas)
    head, tail = (0, shape.head_columns), (shape.head_columns, shape.p_columns)
    return [
        Value(f"load_q[{i}]", f"mma_qk[{i}]", "q", name="q"),
        Value("load_k", f"mma_qk[{i}]", "kv", name="k", part=(0, key_bytes)),
        Value("load_v", f"mma_pv_head[{i}]", "kv", name="v", part=(0, value_bytes)),
        Value("load_v", f"mma_pv_tail[{i}]", "kv", name="v", part=(0, value_bytes)),
        Value(f"mma_qk[{i}]", f"load_s[{i}]", "s", name="s"),
        *(Value(before.name, after.name, "scores") for before, after in pairwise(chain)),
        *(Value(chain[0].name, reader.name, "staged", name="staged") for reader in chain[1:] if _staged_buffers(analysed, tiles)),
        *_tile_values(analysed, i, tiles),
        *_row_values(chain[-1].name, i),
        *(_maximum_values(chain[-1].name, i) if analysed.bounds.needs_row_max else _bounded_values(i)),
        Value(f"exp_head[{i}]", f"mma_pv_head[{i}]", "p", name="p_head", part=head),
        Value(f"exp_tail[{i}]", f"mma_pv_tail[{i}]", "p", name="p_tail", part=tail),
        Value(f"share_row[{i}]", f"finish[{i}]", "stats", name="row"),
        Value(f"mma_pv_head[{i}]", f"mma_pv_tail[{i}]", "o", name="o_half"),
        Value(f"mma_pv_tail[{i}]", f"finish[{i}]", "o", name="o"),
        Value(f"finish[{i}]", f"store_o[{i}]", "o_out", name="out"),
    ]


def _tile_values(analysed: Analysed, i: int, tiles: TensorTiles) -> Iterator[Value]:
    """Tensors' tiles to who reads them; where query tiles have one slot, the last of those leaves it to the next query tile."""
    lanes = tile_shape(analysed.spec).query_tiles
    following, later = (i + 1) % lanes, int(i + 1 == lanes)
    for at, staged in enumerate(stage_beside(analysed.spec, tiles).tiles):
        readers = _tile_readers(analysed, i, staged.in_score, tiles.in_turn)
        yield from (Value(f"{LOAD_TILE}{at}[{i}]", reader, f"tile{at}", name=f"tile{at}") for reader in readers)
        if tiles.in_turn:
            yield Value(readers[-1], f"{LOAD_TILE}{at}[{following}]", None, distance=later)


def _row_values(masked: str, i: int) -> list[Value]:
    """What passes in registers from the masked scores to the row's sum: scores, exponentials, running sum."""
    return [
        *(Value(masked, f"{kind}[{i}]", "scores") for kind in ("exp_head", "exp_tail")),
        *(Value(f"{kind}[{i}]", f"row_sum[{i}]", "scores") for kind in ("exp_head", "exp_tail")),
        Value(f"exp_head[{i}]", f"exp_tail[{i}]", "scores"),  # the kernel goes through a row from its first key on
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
