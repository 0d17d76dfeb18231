"""How many copies of each buffer of the backward: what shared memory has left goes to streams and hand-overs."""

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.set_depths import BARRIER_BYTES

# In this order, one copy more each while there is room. Q stays a step longer than dO, until dK has read it; with two slots for
# dQ one is filled while the other is added to global memory.
URGENT = ("rows", "q", "dq_out", "do", "rows", "q", "do", "rows", "q")
# Where products leave results in registers, dQ is staged at the end of a step, and read long before that of the next.
URGENT_IN_REGISTERS = ("rows", "q", "strips", "do", "dq_out", "rows", "q", "do", "rows", "q")
# In a pair each copy of Q has one reader, which is through with it early.
URGENT_IN_PAIR = ("rows", "dq_out", "q", "do", "rows")


def set_backward_depths(dataflow: Dataflow, limits: Limits, statement: str) -> dict[str, int]:
    """Copies of each shared and tensor buffer. Raises `Unsupported` naming the statement if one of each does not fit.

    With one slot for q (heads of 256) no product of the next step can begin before dK of this one; the search finds that.
    """
    depths = {buffer.name: 1 for buffer in dataflow.buffers if buffer.space != "register"}
    sizes = {buffer.name: buffer.size for buffer in dataflow.buffers if buffer.space == "shared"}
    left = limits.shared_bytes - BARRIER_BYTES - sum(sizes.values())
    if left < sizes["rows"]:
        needed = limits.shared_bytes - left + sizes["rows"]
        reason = (
            f"the backward's tiles need {needed} bytes of shared memory, a block of {limits.target} has {limits.shared_bytes}"
        )
        raise Unsupported(statement, reason)
    alone = URGENT_IN_REGISTERS if dataflow.register_products else URGENT
    for name in alone if dataflow.ctas == 1 else URGENT_IN_PAIR:
        if name in sizes and sizes[name] <= left:
            depths[name] += 1
            left -= sizes[name]
    return depths
