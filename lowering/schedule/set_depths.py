"""How many copies of each buffer: one for each query tile, and for streams as many as shared memory has left."""

from attnspec.lowering.dataflow.forward import LOAD_TILE
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.last_copy import last_bytes
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported

BARRIER_BYTES = 1024  # kept for barriers and the tensor memory address
LEAST_STREAM = 2  # with one slot the loader waits for V's while the scores wait for K's
MOST_STREAM = 16
MANY = 8  # slots: more hide nothing that these do not


def set_depths(dataflow: Dataflow, limits: Limits, statement: str) -> dict[str, int]:
    """Copies of each shared and tensor buffer, all query tiles together. Raises `Unsupported` naming the statement.

    Buffers of query tiles have a copy for each; what lies over another takes no room. If no stream of two fits beside them, the
    query tiles take turns in the staging buffer of the output; if it does not fit even so, the last slot of a stream is as short
    as what comes there (see `last_bytes`). What is left goes to the stream, which hides the latency of global memory.
    """
    streams = _streams(dataflow)
    depths = {item.name: _copies(dataflow, item.name) for item in dataflow.buffers if item.space != "register"}
    lanes = {name: depths[name] for name in streams}
    for staging in (depths["o_out"], 1):
        depths |= {"o_out": staging, **{name: lanes[name] * least for name, least in streams.items()}}
        if _taken(dataflow, depths) <= limits.shared_bytes - BARRIER_BYTES:
            return _filled(dataflow, depths, lanes, limits)
    if _taken(dataflow, depths, least=True) <= limits.shared_bytes - BARRIER_BYTES:
        return depths
    needed = _taken(dataflow, depths, least=True) + BARRIER_BYTES
    raise Unsupported(
        statement, f"its tiles need {needed} bytes of shared memory, a block of {limits.target} has {limits.shared_bytes}"
    )


def _filled(dataflow: Dataflow, depths: dict[str, int], lanes: dict[str, int], limits: Limits) -> dict[str, int]:
    """More slots for the streams in turn, one for each lane, as long as there is room."""
    while True:
        before = dict(depths)
        for name, more in lanes.items():
            deeper = {**depths, name: depths[name] + more}
            if deeper[name] <= MOST_STREAM and _taken(dataflow, deeper) <= limits.shared_bytes - BARRIER_BYTES:
                depths = deeper
        if depths == before:
            return depths | {name: _rounded(depths[name]) for name in lanes if dataflow.register_products}


def _rounded(slots: int) -> int:
    """Of many slots, as many as a power of two: where the next is takes no division then, which those who multiply wait for."""
    return slots if slots < MANY else 1 << slots.bit_length() - 1


def _taken(dataflow: Dataflow, depths: dict[str, int], *, least: bool = False) -> int:
    """Bytes of shared memory. least: with last copies as short as they may be."""
    shared = [item for item in dataflow.buffers if item.space == "shared" and item.over is None]
    spared = sum(item.size - last_bytes(dataflow, item.name, depths[item.name]) for item in shared) if least else 0
    return sum(item.size * depths[item.name] for item in shared) - spared


def _streams(dataflow: Dataflow) -> dict[str, int]:
    """Buffers that keys and values come through: the large ones that TMA fills every step, with the least slots of a lane."""
    streamed = (item for item in dataflow.operations if item.engine == "tma" and item.rate == "step")
    loads = {item.name: item.query_tile for item in streamed if not item.kind.startswith(LOAD_TILE)}
    writers: dict[str, set[str]] = {}
    for value in dataflow.values:
        if value.producer in loads and value.buffer is not None:
            writers.setdefault(value.buffer, set()).add(value.producer)
    large = max(dataflow.buffer(name).size for name in writers) / 2
    return {
        name: LEAST_STREAM if len(found) > len({loads[writer] for writer in found}) else 1
        for name, found in writers.items()
        if dataflow.buffer(name).size >= large
    }


def _copies(dataflow: Dataflow, name: str) -> int:
    """One for each lane that writes the buffer; one for all if no lane owns it, a lane reads what another wrote (O), or all use
    one in turn."""
    values = [value for value in dataflow.values if value.buffer == name]
    lanes = [tuple(dataflow.operation(end).query_tile for end in (value.producer, value.consumer)) for value in values]
    if dataflow.buffer(name).in_turn or any(None not in pair and pair[0] != pair[1] for pair in lanes):
        return 1
    return max(1, len({writer for writer, _ in lanes} - {None}))
