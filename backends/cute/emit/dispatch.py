"""Which warps run which role: an `if` for each warpgroup, its registers, and inside a line for each role."""

from collections.abc import Callable, Sequence

from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Role, Schedule

WARPGROUP = 4  # warps that share one setmaxnreg
REGISTERS = 65536  # of a multiprocessor
IDLE = "idle"


def write_dispatch(
    source: Source,
    schedule: Schedule,
    function: Callable[[Role], str] = lambda role: role.kind,
    condition: Callable[[Role], str] = lambda role: f"warp == {role.warps[0]}",
    otherwise: str | None = None,
) -> None:
    """The dispatch of a kernel.

    function: the library's, for a role; condition: which warp runs one of several in a warpgroup; otherwise: what the other
    warps of such a warpgroup run.
    """
    groups = _warpgroups(schedule.roles)
    average = REGISTERS // schedule.threads
    for index, (last, roles) in enumerate(groups):
        word = "if" if index == 0 else "elif"
        header = f"{word} warp < {last}:" if index < len(groups) - 1 else "else:"
        with source.block(header):
            registers = roles[0].registers
            change = "increase" if registers > average else "decrease"
            source.line(f"cute.arch.setmaxregister_{change}({registers})")
            _write_roles(source, roles, function, condition, otherwise)


def _write_roles(
    source: Source,
    roles: Sequence[Role],
    function: Callable[[Role], str],
    condition: Callable[[Role], str],
    otherwise: str | None,
) -> None:
    working = [role for role in roles if role.kind != IDLE]
    functions = list(dict.fromkeys(map(function, working)))
    if len(functions) == 1 and (len(working) == len(roles) or otherwise is not None):
        source.line(_call(functions[0]))
        return
    for index, role in enumerate(working):
        with source.block(f"{'if' if index == 0 else 'elif'} {condition(role)}:"):
            source.line(_call(function(role)))
    if otherwise is not None:
        with source.block("else:"):
            source.line(_call(otherwise))


def _call(function: str) -> str:
    return f"{function}(PLAN, tiles, pipes, work, MODS)"


def _warpgroups(roles: Sequence[Role]) -> list[tuple[int, list[Role]]]:
    """(first warp after the group, its roles): roles of one kind together, and the roles that share a warpgroup."""
    groups: list[tuple[int, list[Role]]] = []
    for role in sorted(roles, key=lambda role: role.warps[0]):
        end = role.warps[-1] + 1
        last = groups[-1] if groups else None
        shares = last is not None and (last[1][-1].kind == role.kind or role.warps[0] % WARPGROUP)
        if last is not None and shares:
            groups[-1] = (end, [*last[1], role])
        else:
            groups.append((end, [role]))
    return groups
