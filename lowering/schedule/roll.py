"""Roles that go on to the next work tile before they have finished this one, where that brings the next tile sooner.

What lags behind a role's first operations is issued after a tile's last trip, while nothing of the next tile is under way: the
tensor core drains. A role that rolls issues it in the next tile's first trip. The tile graph says what that is worth.
"""

from dataclasses import replace

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.schedule import Role


def rolled(dataflow: Dataflow, roles: tuple[Role, ...]) -> tuple[Role, ...] | None:
    """The roles, those rolling that can; None if there is none.

    Only asynchronous operations lag behind others of their role (`programs`), and only tensor operations are all of every step.
    The library has such a role for one key tile a step of the forward.
    """
    if dataflow.direction == "backward" or dataflow.key_tiles > 1:
        return None
    found = tuple(replace(role, rolls=_can_roll(dataflow, role)) for role in roles)
    return found if found != roles else None


def _can_roll(dataflow: Dataflow, role: Role) -> bool:
    operations = [dataflow.operation(step.operation) for step in role.program]
    lags = any(step.stage for step in role.program)
    return lags and all(item.engine == "tensor" and item.rate == "step" for item in operations)
