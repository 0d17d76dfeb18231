"""How many copies of each buffer: one for each query tile, and for streams as many as shared memory has left."""

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported

BARRIER_BYTES = 1024  # kept for barriers and the tensor memory address
LEAST_STREAM = 2  # with one slot the loader waits for V's while the scores wait for K's
MOST_STREAM = 16


def set_depths(dataflow: Dataflow, limits: Limits, statement: str) -> dict[str, int]:
    """Copies of each shared and tensor buffer, all query tiles together. Raises `Unsupported` naming the statement.

    Buffers of query tiles have a copy for each. If no stream of two fits beside them, the query tiles take turns in the
    staging buffer of the output. What is left goes to the stream, which hides the latency of global memory.
    """
    depths = {buffer.name: _copies(dataflow, buffer.name) for buffer in dataflow.buffers if buffer.space != "register"}
    stream = next(name for name, copies in depths.items() if not copies)
    slot = dataflow.buffer(stream).size
    for staging in (depths["o_out"], 1):
        depths["o_out"] = staging
        taken = sum(dataflow.buffer(name).size * depth for name, depth in depths.items() if _is_shared(dataflow, name))
        left = limits.shared_bytes - BARRIER_BYTES - taken
        if left >= LEAST_STREAM * slot:
            return {**depths, stream: min(left // slot, MOST_STREAM)}
    needed = taken + LEAST_STREAM * slot + BARRIER_BYTES
    raise Unsupported(
        statement, f"its tiles need {needed} bytes of shared memory, a block of {limits.target} has {limits.shared_bytes}"
    )


def _is_shared(dataflow: Dataflow, name: str) -> bool:
    return dataflow.buffer(name).space == "shared"


def _copies(dataflow: Dataflow, name: str) -> int:
    """One for each query tile that writes the buffer; 0 for a stream, which no query tile owns."""
    writers = {value.producer for value in dataflow.values if value.buffer == name}
    return len({dataflow.operation(writer).query_tile for writer in writers} - {None})
