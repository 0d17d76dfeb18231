"""Programs and roles: every operation once, in one place, in an order that its values allow."""

from collections import Counter

from attnspec.lowering.dataflow.graph import Rate
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, ProgramStep, Role

WARPGROUP = 4


def check_programs(draft: Draft, limits: Limits) -> None:
    """Raise ScheduleError unless the roles run the whole graph and nothing else, each on warps that can."""
    _check_operations(draft)
    _check_warps(draft, limits)
    for role in draft.roles:
        _check_engines(draft, role)
        _check_stages(draft, role)
        _check_together(draft, role)
    _check_kinds(draft)
    _check_order(draft)


def _check_operations(draft: Draft) -> None:
    known = [operation.name for operation in draft.dataflow.operations]
    held = Counter(step.operation for role in draft.roles for step in role.program)
    for name, count in held.items():
        if name not in known:
            raise ScheduleError("operation-unknown", f"a program runs {name}, which is not in the graph")
        if count > 1:
            raise ScheduleError("operation-twice", f"{name} is in {count} places of the programs")
    for name in known:
        if name not in held:
            raise ScheduleError("operation-missing", f"no role runs {name}")


def _check_warps(draft: Draft, limits: Limits) -> None:
    names = Counter(role.name for role in draft.roles)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ScheduleError("role-twice", f"two roles are called {twice[0]}")
    warps = sorted(warp for role in draft.roles for warp in role.warps)
    if warps != list(range(draft.threads // 32)) or draft.threads % 32 or draft.threads > limits.threads:
        raise ScheduleError("role-warps", f"warps {warps} are not those of {draft.threads} threads, each once")
    for role in draft.roles:
        if _touches_tensor_memory(draft, role) and (len(role.warps) % WARPGROUP or role.warps[0] % WARPGROUP):
            reason = f"{role.name} reads tensor memory, whose lanes 32w .. 32w + 31 only warp w of a warpgroup reaches"
            raise ScheduleError("role-warps", f"{reason}, but it has warps {role.warps}")
        if list(role.warps) != list(range(role.warps[0], role.warps[0] + len(role.warps))):
            raise ScheduleError("role-warps", f"warps {role.warps} of {role.name} do not follow one another")


def _touches_tensor_memory(draft: Draft, role: Role) -> bool:
    own = {step.operation for step in role.program if draft.dataflow.operation(step.operation).engine == "threads"}
    in_tensor = {buffer.name for buffer in draft.dataflow.buffers if buffer.space == "tensor"}
    return any(value.buffer in in_tensor and own & {value.producer, value.consumer} for value in draft.dataflow.values)


def _check_engines(draft: Draft, role: Role) -> None:
    """Waits for one engine must not hold up another; and only one warp issues. Operations that touch no memory are for any."""
    products, touching = draft.dataflow.register_products, _touching(draft)
    own = [step.operation for step in role.program if step.operation not in products]
    engines = {draft.dataflow.operation(name).engine for name in own if name in touching or len(own) == 1}
    if len(own) < len(role.program) and (engines - {"threads"} or len(role.warps) % WARPGROUP or role.warps[0] % WARPGROUP):
        raise ScheduleError("role-engines", f"{role.name} multiplies in registers, but is not whole warpgroups that compute")
    if len(engines) > 1:
        raise ScheduleError("role-engines", f"{role.name} issues to {', '.join(sorted(engines))}: one role, one engine")
    if engines & {"tma", "tensor"} and len(role.warps) != 1:
        raise ScheduleError("role-engines", f"{role.name} issues to {engines.pop()} from {len(role.warps)} warps, not one")


def _touching(draft: Draft) -> set[str]:
    """Operations that write or read a buffer."""
    return {end for value in draft.dataflow.values if value.buffer is not None for end in (value.producer, value.consumer)}


def _check_stages(draft: Draft, role: Role) -> None:
    stages = [step.stage for step in role.program]
    if stages and min(stages) != 0:
        raise ScheduleError("stage", f"no operation of {role.name} is at stage 0, or one is before it: {stages}")
    for step in role.program:
        if (step.stage or role.rolls) and draft.dataflow.operation(step.operation).rate == "tile":
            raise ScheduleError(
                "stage", f"{step.operation} happens once a tile and cannot lag by steps or roll on to the next tile"
            )


def _check_together(draft: Draft, role: Role) -> None:
    """Operations that are run as one follow one another, in the order that the graph names, in one trip, on warps."""
    names = [step.operation for step in role.program]
    for group in draft.dataflow.together:
        if not set(group) & set(names):
            continue
        at = names.index(group[0]) if group[0] in names else 0
        stages = {step.stage for step in role.program if step.operation in group}
        engines = {draft.dataflow.operation(name).engine for name in group}
        if tuple(names[at : at + len(group)]) != group or len(stages) > 1 or engines != {"threads"}:
            raise ScheduleError("together", f"{role.name} runs {', '.join(group)} as one, but its program has {names}")


def _check_kinds(draft: Draft) -> None:
    """Roles of one kind run one piece of code: the same program, up to the number of the query tile."""
    first: dict[str, Role] = {}
    for role in draft.roles:
        other = first.setdefault(role.kind, role)
        if _shape(draft, role) != _shape(draft, other):
            raise ScheduleError("role-kind", f"{role.name} and {other.name} are of one kind but not of one program")
        for step in role.program:
            tile = draft.dataflow.operation(step.operation).query_tile
            if role.query_tile is not None and tile != role.query_tile:
                raise ScheduleError("role-kind", f"{step.operation} is not of query tile {role.query_tile}, as {role.name} is")


def _shape(draft: Draft, role: Role) -> tuple[object, ...]:
    steps = [(draft.dataflow.operation(step.operation).kind, step.stage) for step in role.program]
    return len(role.warps), role.registers, tuple(steps)


def _check_order(draft: Draft) -> None:
    """Values in registers stay in their role, and every value inside one program is written before it is read."""
    in_registers = {buffer.name for buffer in draft.dataflow.buffers if buffer.space == "register"}
    for value in draft.dataflow.values:
        if value.producer in draft.dataflow.stores and draft.role_of(value.producer) is not draft.role_of(value.consumer):
            raise ScheduleError(
                "store-value", f"{value.consumer} waits for {value.producer}, which only its own warp can wait for"
            )
        role, reader = draft.role_of(value.producer), draft.role_of(value.consumer)
        if value.buffer in in_registers and role is not reader:
            raise ScheduleError("register-value", f"{value.consumer} of {reader.name} reads registers of {role.name}")
        closes = _rate(draft, value.consumer) == "tile" and _rate(draft, value.producer) == "step"  # after the last trip
        if role is reader and not closes and _time(role, value.consumer, value.distance) <= _time(role, value.producer):
            raise ScheduleError("program-order", f"{role.name} runs {value.consumer} before {value.producer}, which it reads")


def _rate(draft: Draft, name: str) -> Rate:
    return draft.dataflow.operation(name).rate


def _time(role: Role, name: str, distance: int = 0) -> tuple[int, int]:
    steps: list[ProgramStep] = list(role.program)
    at = next(index for index, step in enumerate(steps) if step.operation == name)
    return steps[at].stage + distance, at
