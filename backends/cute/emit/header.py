"""The emitted module's docstring: what it computes, who does what, and what passes between them."""

from attnspec.backends.cute.emit.pipes import pipe_lines
from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Role, Schedule

from attnspec.language.show import show
from attnspec.language.spec import Spec


def write_header(source: Source, spec: Spec, schedule: Schedule) -> None:
    """The docstring, with the spec, the role table and the pipe table."""
    kind = schedule.dataflow.direction.capitalize()
    rows = [
        f"{kind} kernel of `{spec.name}` for sm_{schedule.target[2:]}a, written by attnspec. Edit the spec, not this file.",
        "",
        *(f"    {line}" for line in show(spec).rstrip().split("\n")),
        "",
        *_role_rows(schedule),
        "",
        *_pipe_rows(schedule),
    ]
    source.docstring(*rows)
    source.blank()


def _role_rows(schedule: Schedule) -> list[str]:
    rows = [("role", "warps", "registers", "program, a step (an apostrophe: of the step before)")]
    rows += [(role.name, _warps(role), str(role.registers), _program(schedule, role)) for role in schedule.roles]
    return _table(rows)


def _warps(role: Role) -> str:
    return str(role.warps[0]) if len(role.warps) == 1 else f"{role.warps[0]}-{role.warps[-1]}"


def _program(schedule: Schedule, role: Role) -> str:
    names = [f"{step.operation}{chr(39) * step.stage}" for step in role.program]
    return " ".join(names) or "nothing"


def _pipe_rows(schedule: Schedule) -> list[str]:
    rows = [("pipe", "from", "to", "slots", "full", "empty")]
    for line in pipe_lines(schedule):
        full, empty = line.channel.full, line.channel.empty
        back = f"{empty.count} {empty.engine}" if empty else line.channel.implied_by or "implied"
        rows.append((line.name, line.produce, line.wait, str(line.channel.depth), f"{full.count} {full.engine}", back))
    return _table(rows)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
