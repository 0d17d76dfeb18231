"""Where each buffer's copies lie in shared and in tensor memory."""

from collections.abc import Collection

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.last_copy import last_bytes
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.schedule import Placement
from attnspec.lowering.schedule.set_depths import BARRIER_BYTES

TILE_ALIGNMENT = 1024  # of a tile with 128-byte swizzle: its pattern repeats every eight rows
# P lies over the upper half of its own scores (FA4), which are in registers by then. In the backward P^T and dS^T take the
# columns of S^T and dP^T, each warpgroup in its own half; dQ follows dS^T where it finds no columns of its own.
OVERLAYS = {
    "forward": {"p": ("s", None)},
    "backward": {"p": ("s", 0), "ds": ("dp", 0), "dq": ("dp", 0)},
}
# In the backward of a pair P and dS leave no gaps, and half of dQ's columns find room beside P.
OVERLAYS_OF_PAIR = {"forward": OVERLAYS["forward"], "backward": {"p": ("s", 0), "ds": ("dp", 0), "dq": ("s", None)}}


def overlays_of(dataflow: Dataflow) -> dict[str, tuple[str, int | None]]:
    """Which buffers may lie over which, and from which of its columns on; None: over its last ones."""
    return dict((OVERLAYS if dataflow.ctas == 1 else OVERLAYS_OF_PAIR)[dataflow.direction])


def share_columns(dataflow: Dataflow, one: str, other: str) -> bool:
    """Whether two buffers that lie over one have columns in common."""
    ranges = [_columns_under(dataflow, name) for name in (one, other)]
    return max(first for first, _ in ranges) < min(last for _, last in ranges)


def _columns_under(dataflow: Dataflow, name: str) -> tuple[int, int]:
    under, shift = overlays_of(dataflow)[name]
    size = dataflow.buffer(name).size
    first = dataflow.buffer(under).size - size if shift is None else shift
    return first, first + size


def place_buffers(
    dataflow: Dataflow, depths: dict[str, int], limits: Limits, statement: str, separate: Collection[str] = ()
) -> tuple[Placement, ...]:
    """Places of shared buffers, then of tensor buffers. Raises `Unsupported` naming the statement if tensor memory is too small.

    separate: buffers that have columns of their own although they could lie over others.

    Shared memory: tiles first, in the order of the graph, each a multiple of their alignment, then what needs less; what the
    graph has over another buffer lies there. Where whole copies do not fit, last ones are as short as what comes there.
    """
    return (*_shared(dataflow, depths, limits), *_tensor(dataflow, depths, limits, statement, separate))


def _shared(dataflow: Dataflow, depths: dict[str, int], limits: Limits) -> list[Placement]:
    shared = [buffer for buffer in dataflow.buffers if buffer.space == "shared"]
    buffers = [buffer for buffer in shared if buffer.over is None]
    is_tight = sum(buffer.size * depths[buffer.name] for buffer in buffers) > limits.shared_bytes - BARRIER_BYTES
    placements, offset = [], 0
    for buffer in sorted(buffers, key=lambda item: item.size % TILE_ALIGNMENT != 0):
        depth = depths[buffer.name]
        last = last_bytes(dataflow, buffer.name, depth) if is_tight else buffer.size
        placements.append(Placement(buffer.name, "shared", offset, buffer.size, depth, last=last if last < buffer.size else None))
        offset = placements[-1].end()
    places = {item.buffer: item.offset for item in placements}
    over = [(buffer, str(buffer.over)) for buffer in shared if buffer.over is not None]
    return [
        *placements,
        *(Placement(item.name, "shared", places[under], item.size, depths[item.name], under) for item, under in over),
    ]


def _tensor(
    dataflow: Dataflow, depths: dict[str, int], limits: Limits, statement: str, separate: Collection[str]
) -> list[Placement]:
    placements: dict[str, Placement] = {}
    overlays = {name: under for name, under in overlays_of(dataflow).items() if name not in separate}
    column = 0
    for buffer in dataflow.buffers:
        if buffer.space != "tensor":
            continue
        depth = depths[buffer.name]
        if buffer.name in overlays and not (buffer.name == "dq" and column + buffer.size <= limits.tensor_columns):
            under, shift = overlays[buffer.name]
            base = placements[under]
            at = base.offset + (base.size - buffer.size if shift is None else shift)
            placements[buffer.name] = Placement(buffer.name, "tensor", at, buffer.size, depth, under, base.size)
        else:
            placements[buffer.name] = Placement(buffer.name, "tensor", column, buffer.size, depth)
            column += buffer.size * depth
    if column > limits.tensor_columns:
        raise Unsupported(
            statement,
            f"its scores and outputs need {column} columns of tensor memory, {limits.target} has {limits.tensor_columns}",
        )
    return list(placements.values())
