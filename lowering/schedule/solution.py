"""What the search decides: who runs what in which order, and which buffers have columns of their own. All else follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnspec.lowering.schedule.schedule import ProgramStep, Role

LAG = "'"  # an apostrophe: of the step before, two: of the one before that


@dataclass(frozen=True)
class Solution:
    """Roles without registers, and the buffers that lie apart although they could lie over others."""

    roles: tuple[Role, ...]
    separate: tuple[str, ...] = ()


def solution_as_dict(solution: Solution) -> dict[str, Any]:
    """For JSON: a line a role."""
    return {"separate": list(solution.separate), "roles": [_role_as_list(role) for role in solution.roles]}


def solution_from_dict(data: Mapping[str, Any]) -> Solution:
    """The inverse. KeyError, TypeError or ValueError for what is no solution."""
    return Solution(tuple(_role_from_list(*row) for row in data["roles"]), tuple(data["separate"]))


def _role_as_list(role: Role) -> list[Any]:
    program = " ".join(step.operation + LAG * step.stage for step in role.program)
    return [role.name, role.kind, role.query_tile, role.warps[0], len(role.warps), program, role.rolls]


def _role_from_list(name: str, kind: str, lane: int | None, first: int, count: int, program: str, rolls: bool) -> Role:
    steps = tuple(ProgramStep(text.rstrip(LAG), len(text) - len(text.rstrip(LAG))) for text in program.split())
    return Role(name, kind, tuple(range(first, first + count)), 0, steps, lane, rolls)
