"""The backward graph: dV = P^T dO, dK = dS^T Q, dQ = dS K for a key tile that stays while query tiles stream past it.

Scores are made again, transposed: keys are rows, so P^T and dS^T are what the products of dV and dK take from tensor memory, and
dS goes to shared memory for dQ alone (FA4, backward). The rows' log-sum-exp and delta come from a pass of their own before it,
and dQ is added up in global memory, converted by a pass after it.

Two CTAs may share a work tile of twice as many keys (FA4, 2-CTA backward): each has its own keys, and holds of the query tiles
what a product of both takes from it, half of the rows for S and dP, half of the columns for dV and dK. Half of dS goes to the
other CTA, so that each makes dQ of half of the queries, summed over the keys of both, and adds half as much.
"""

from itertools import pairwise

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward_pair import beside_probabilities, by_columns, columns_buffers, exchanged, pair_streams
from attnspec.lowering.dataflow.backward_shape import BackwardShape, backward_shape
from attnspec.lowering.dataflow.forward import ELEMENT_BYTES, SWIZZLE_ELEMENTS, padded
from attnspec.lowering.dataflow.graph import Buffer, Dataflow, Operation, Value

from attnspec.language.expr import Name, Number, Read, names, nodes

PLANES = 2  # numbers a row brings: its log-sum-exp and delta
LANES = 128  # of tensor memory
F32_BYTES = 4
WHOLE = 64  # columns of dQ that are always read at once
TENSOR_COLUMNS = 512  # of a multiprocessor: where dQ finds no columns of its own it takes those of dP


def draw_backward(analysed: Analysed, deterministic: bool = False, ctas: int = 1) -> Dataflow:
    """The backward graph of a variant. A step is a query tile of one head of the group; a work tile is a key tile of each CTA."""
    shape = backward_shape(analysed.spec, ctas)
    return Dataflow(
        direction="backward",
        tile_q=shape.tile_q,
        tile_kv=shape.tile_kv,
        query_tiles=1,
        operations=tuple(_operations(analysed, ctas)),
        buffers=_buffers(analysed, ctas),
        values=tuple(_values(analysed, ctas)),
        ctas=ctas,
        deterministic=deterministic,
        together=_together(analysed),
    )


def pieces(analysed: Analysed, ctas: int = 1) -> int:
    """Pieces in which a row of dQ is read from tensor memory: one frees its columns soonest, but wants a register a column.

    Where scores are computed anew, those registers are wanted there: two pieces.
    """
    is_plain, shape = analysed.spec.score == Name("score", "float"), backward_shape(analysed.spec, ctas)
    return 1 if is_plain or shape.dq_columns <= WHOLE or len(shape.chunks) % 2 else 2


def merges(analysed: Analysed) -> bool:
    """Whether P waits for dP: the score is needed with dP, and cannot be kept, nor its slope in P.

    So it is where a learned tensor's share needs the score or a slope that is not 1, and where the score reads something of
    every element and its slope is not 1.
    """
    derivative, score = analysed.derivative, analysed.spec.score
    has_slope = derivative.score != Number(1.0, "float")
    in_share = any("score" in names(found.partial) for found in derivative.learned) or (has_slope and bool(derivative.learned))
    return in_share or (has_slope and any(isinstance(at, Read) and "q" in names(at) for at in nodes(score)))


def has_own_columns(analysed: Analysed, ctas: int = 1) -> bool:
    """Whether dQ fits into tensor memory beside S, dP, dV and dK."""
    shape = backward_shape(analysed.spec, ctas)
    return 2 * shape.tile_q + shape.width + shape.dq_columns + shape.width_v <= TENSOR_COLUMNS


def _chain(analysed: Analysed) -> list[Operation]:
    """What happens to a tile of scores in registers, in order."""
    spec = analysed.spec
    chain = [Operation("load_s", "threads", "step")]
    if spec.score != Name("score", "float"):
        chain.append(Operation("score", "threads", "step", note="score of the file"))
    note = "positions past the lengths" if spec.mask is None else "mask of the file, and positions past the lengths"
    return [*chain, Operation("mask", "threads", "step", note=note), Operation("exp", "threads", "step")]


def _together(analysed: Analysed) -> tuple[tuple[str, ...], ...]:
    """Where the score is needed with dP, what is done with both is done a few elements at a time."""
    before = (operation.name for operation in _chain(analysed)[:-1])
    return ((*before, "load_dp", "exp", "ds", "share_ds"),) if merges(analysed) else ()


def _operations(analysed: Analysed, ctas: int) -> list[Operation]:
    chunks, joint = backward_shape(analysed.spec, ctas).chunks, ctas > 1
    return [
        Operation("load_k", "tma", "tile"),
        Operation("load_v", "tma", "tile"),
        Operation("load_q", "tma", "step"),
        Operation("load_rows", "tma", "step", note="log-sum-exp and delta"),
        Operation("load_do", "tma", "step"),
        *(by_columns() if joint else []),
        Operation("mma_s", "tensor", "step", joint=joint),
        *_chain(analysed),
        Operation("mma_dp", "tensor", "step", joint=joint),
        Operation("load_dp", "threads", "step"),
        Operation("ds", "threads", "step", note="P (dP - delta), times the score's derivative"),
        Operation("share_ds", "threads", "step"),
        Operation("mma_dv", "tensor", "step", joint=joint),
        Operation("mma_dk", "tensor", "step", joint=joint),
        Operation("mma_dq", "tensor", "step", joint=joint),
        *(Operation(f"load_dq_{at}", "threads", "step") for at in range(pieces(analysed, ctas))),
        *(Operation(f"stage_dq_{at}", "threads", "step") for at in chunks),
        *(Operation(f"reduce_dq_{at}", "tma", "step") for at in chunks),
        Operation("store_dv", "threads", "tile"),
        Operation("store_dk", "threads", "tile"),
    ]


def _tile_bytes(rows: int, columns: int) -> int:
    return rows * columns * ELEMENT_BYTES


def _loaded(shape: BackwardShape, rows: int, head_dim: int) -> tuple[int, int] | None:
    """Bytes of a tile that come from global memory; None for all. What pads it to whole parts stays as it is."""
    loaded = padded(head_dim, SWIZZLE_ELEMENTS)
    return None if loaded == shape.columns(head_dim) else (0, _tile_bytes(rows, loaded))


def _buffers(analysed: Analysed, ctas: int) -> tuple[Buffer, ...]:
    """Sizes are those of one CTA. In a pair P and dS have no gaps: a thread has queries of both halves, see `BackwardPlan`."""
    spec, shape = analysed.spec, backward_shape(analysed.spec, ctas)
    columns, columns_v = shape.columns(spec.head_dim), shape.columns(spec.head_dim_v)
    return (
        Buffer("k", "shared", _tile_bytes(shape.tile_kv, columns)),
        Buffer("v", "shared", _tile_bytes(shape.tile_kv, columns_v)),
        Buffer("q", "shared", _tile_bytes(shape.tile_q // ctas, columns)),
        Buffer("do", "shared", _tile_bytes(shape.tile_q // ctas, columns_v)),
        *(columns_buffers(shape) if ctas > 1 else ()),
        Buffer("ds_out", "shared", _tile_bytes(shape.tile_q, shape.tile_kv)),
        Buffer("dq_out", "shared", LANES * shape.chunk * F32_BYTES),
        Buffer("rows", "shared", PLANES * shape.tile_q * F32_BYTES),
        Buffer("s", "tensor", shape.tile_q),
        Buffer("p", "tensor", shape.tile_q // ctas),
        Buffer("dv", "tensor", shape.width_v),
        Buffer("dp", "tensor", shape.tile_q),
        Buffer("ds", "tensor", shape.tile_q // ctas),
        Buffer("dk", "tensor", shape.width),
        Buffer("dq", "tensor", shape.dq_columns),
        Buffer("scores", "register", 4 * shape.tile_q),
    )


def _streams(analysed: Analysed) -> list[Value]:
    """What one CTA loads for its products."""
    spec, shape = analysed.spec, backward_shape(analysed.spec)
    dims = {"k": spec.head_dim, "q": spec.head_dim, "v": spec.head_dim_v, "do": spec.head_dim_v}
    parts = {name: _loaded(shape, shape.tile_kv if name in "kv" else shape.tile_q, dim) for name, dim in dims.items()}
    return [
        *(Value("load_k", reader, "k", name="k", part=parts["k"]) for reader in ("mma_s", "mma_dq")),
        Value("load_v", "mma_dp", "v", name="v", part=parts["v"]),
        *(Value("load_q", reader, "q", name="q", part=parts["q"]) for reader in ("mma_s", "mma_dk")),
        *(Value("load_do", reader, "do", name="do", part=parts["do"]) for reader in ("mma_dp", "mma_dv")),
    ]


def _values(analysed: Analysed, ctas: int) -> list[Value]:
    chain = [operation.name for operation in _chain(analysed)]
    return [
        *(_streams(analysed) if ctas == 1 else pair_streams()),
        *(Value("load_rows", reader, "rows", name="rows") for reader in ("exp", "ds")),
        Value("mma_s", "load_s", "s", name="s"),
        *(Value(before, after, "scores") for before, after in pairwise(chain)),
        Value("exp", "mma_dv", "p", name="p"),
        Value("mma_dp", "load_dp", "dp", name="dp"),
        *(Value(before, "ds", "scores") for before in ("exp", "load_dp")),
        Value("ds", "share_ds", "scores"),
        *([Value("load_dp", "exp", "scores")] if merges(analysed) else []),
        Value("ds", "mma_dk", "ds", name="ds"),
        Value("share_ds", "mma_dq", "ds_out", name="ds_out") if ctas == 1 else exchanged(backward_shape(analysed.spec, ctas)),
        *_accumulators(),
        *_query_gradient(analysed, ctas),
    ]


def _accumulators() -> list[Value]:
    """dV and dK: summed over the steps of a work tile, stored at its end."""
    return [
        *(Value(f"mma_{name}", f"mma_{name}", name, distance=1, name=f"{name}_sum") for name in ("dv", "dk")),
        *(Value(f"mma_{name}", f"store_{name}", name, name=name) for name in ("dv", "dk")),
    ]


def _query_gradient(analysed: Analysed, ctas: int) -> list[Value]:
    """dQ of a step: from tensor memory through registers and shared memory into the sum in global memory."""
    chunks, count = backward_shape(analysed.spec, ctas).chunks, pieces(analysed, ctas)
    values = [
        *(Value("mma_dq", f"load_dq_{at}", "dq", name="dq") for at in range(count)),
        *(Value(f"load_dq_{at * count // len(chunks)}", f"stage_dq_{at}", None) for at in chunks),
        *(Value(f"stage_dq_{at * len(chunks) // count - 1}", f"load_dq_{at}", None) for at in range(1, count)),
        *(Value(f"stage_dq_{at}", f"reduce_dq_{at}", "dq_out", name=f"dq_out_{at}") for at in chunks),
    ]
    if has_own_columns(analysed, ctas):
        return values
    last = f"load_dq_{count - 1}"
    if ctas > 1:
        return [*values, *beside_probabilities(last)]
    # The next dP overwrites dQ: what is in its columns must have been read.
    return [*values, Value(last, "mma_dp", None, distance=1, name="drained")]
