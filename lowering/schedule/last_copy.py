"""How much of a ring's last slot is ever used: where keys and values take turns in two slots, values alone come to the second."""

from attnspec.lowering.dataflow.graph import Dataflow


def last_bytes(dataflow: Dataflow, name: str, depth: int) -> int:
    """Bytes of the last of `depth` copies of a buffer: of a whole one, unless only what is smaller comes there.

    The writers of a stream take turns in the order of the graph; if they come round with the slots, each has always the same.
    """
    size = dataflow.buffer(name).size
    ends: dict[str, int] = {}
    for value in dataflow.values:
        if value.buffer == name:
            ends[value.producer] = max(ends.get(value.producer, 0), value.part[1] if value.part else size)
    writers = [operation for operation in dataflow.operations if operation.name in ends]
    is_stream = all((writer.engine, writer.rate, writer.query_tile) == ("tma", "step", None) for writer in writers)
    if not is_stream or len(writers) < 2 or depth % len(writers):
        return size
    return ends[writers[-1].name]
