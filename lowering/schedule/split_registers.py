"""How many registers each warpgroup's threads get from the block's pool."""

from dataclasses import replace

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.schedule import Role

WARPGROUP = 4
UNIT = 8  # setmaxnreg counts in eights
SINGLE_WARPS = 48  # addresses, counters and descriptors of a warp that only issues (FA4)
REDUCE_BASE = 24  # beside a row of dQ, whole or in pieces (FA4)
CORRECTION = 80  # two chunks of 16 columns in flight and the same base (FA4)


def split_registers(dataflow: Dataflow, roles: tuple[Role, ...], limits: Limits) -> tuple[Role, ...]:
    """Roles with registers: the least that the others live on, and all the rest to the softmax, which holds whole rows."""
    pool = limits.registers // (32 * WARPGROUP)  # for each thread position of a warpgroup
    groups = {warp // WARPGROUP for role in roles for warp in role.warps}
    holders = {warp // WARPGROUP for role in roles for warp in role.warps if role.kind in ("softmax", "compute")}
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
    return CORRECTION if len(role.warps) == WARPGROUP else SINGLE_WARPS
