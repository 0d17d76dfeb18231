"""How many registers each warpgroup's threads get from the block's pool."""

from dataclasses import replace

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.schedule import Role

WARPGROUP = 4
UNIT = 8  # setmaxnreg counts in eights
LOADER = 24  # of warps that only load, where all others multiply (FA3)
SINGLE_WARPS = 48  # addresses, counters and descriptors of a warp that only issues (FA4)
PAIR_WARPS = 56  # of the same in the backward of a pair: q and dO come twice
WIDE_WARPS = 80  # of the same for heads above 128: twice the boxes and descriptors
WIDE_BYTES = 128 * 128 * 2  # of a tile of keys of such a head there are more
REDUCE_BASE = 24  # beside a row of dQ, whole or in pieces (FA4)
CORRECTION = 80  # two chunks of 16 columns in flight and the same base (FA4)


def split_registers(dataflow: Dataflow, roles: tuple[Role, ...], limits: Limits) -> tuple[Role, ...]:
    """Roles with registers: the least that the others live on, and all the rest to the softmax, which holds whole rows."""
    groups = {warp // WARPGROUP for role in roles for warp in role.warps}
    # What a block starts with is all there is, as many for every thread; by the thread positions of a warpgroup.
    pool = limits.registers // (32 * WARPGROUP * len(groups)) // UNIT * UNIT * len(groups)
    holders = {warp // WARPGROUP for role in roles for warp in role.warps if role.kind in ("softmax", "compute", "attend")}
    fixed = {group: max(_least(dataflow, role) for role in roles if group in _groups(role)) for group in groups - holders}
    share = (pool - sum(fixed.values())) // max(1, len(holders)) // UNIT * UNIT
    most = limits.thread_registers[1]
    return tuple(replace(role, registers=fixed.get(role.warps[0] // WARPGROUP, min(share, most))) for role in roles)


def _groups(role: Role) -> set[int]:
    return {warp // WARPGROUP for warp in role.warps}


def _least(dataflow: Dataflow, role: Role) -> int:
    if role.kind == "reduce":
        pieces = sum(dataflow.operation(step.operation).kind.startswith("load_dq") for step in role.program)
        return max(CORRECTION, -(-(dataflow.buffer("dq").size // pieces + REDUCE_BASE) // UNIT) * UNIT)
    if dataflow.register_products:
        return LOADER
    if dataflow.direction == "backward" and dataflow.buffer("k").size > WIDE_BYTES:
        return WIDE_WARPS
    if dataflow.direction == "backward" and dataflow.ctas > 1:
        return PAIR_WARPS
    return CORRECTION if len(role.warps) == WARPGROUP else SINGLE_WARPS
