"""A schedule as text for people: roles, pipelines, memory maps, registers, costs, and what bounds a step."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from attnspec.lowering.schedule.event_graph import Circle
from attnspec.lowering.schedule.prices import UNITS, Prices
from attnspec.lowering.schedule.schedule import Arrivals, Channel, Placement, ProgramStep, Role, Schedule
from attnspec.lowering.schedule.tile_graph import tile_period

WARPGROUP = 4
TILE_STEPS = (1, 2, 4, 8, 16)
SHOWN = 4  # operations on each side of a boundary between tiles


def show_schedule(schedule: Schedule, masked: Prices | None = None) -> str:
    """All of a schedule. masked: prices of a step whose tiles need the element mask, for a second column of costs."""
    sections = (
        show_roles(schedule),
        show_pipelines(schedule),
        show_shared(schedule),
        show_tensor(schedule),
        show_registers(schedule),
        show_choices(schedule),
        show_costs(schedule.proof.prices, masked),
        show_traffic(schedule),
        show_critical(schedule),
        show_tiles(schedule),
        show_assumptions(schedule),
    )
    return "\n\n".join(sections) + "\n"


def show_roles(schedule: Schedule) -> str:
    """Which warps run which program; `(j-1)` after an operation: one step behind the role's first."""
    rows = [(role.name, _warps(role), _program(role)) for role in schedule.roles]
    return _table("roles", ("role", "warps", "program"), rows)


def show_pipelines(schedule: Schedule) -> str:
    """A line a channel: who hands what to whom, through how many slots, in which use of them, on which arrivals."""
    head = ("channel", "from", "to", "ring", "slots", "use", "full", "empty")
    title = "pipelines (use: J steps and T tiles since the start; empty `by X`: hand-overs that imply it)"
    return _table(title, head, [_channel_row(channel) for channel in schedule.channels])


def show_shared(schedule: Schedule) -> str:
    """Shared memory by offset."""
    rows = [(f"{item.offset}", _sizes(item), item.buffer) for item in schedule.placements if item.space == "shared"]
    used = max(item.end() for item in schedule.placements if item.space == "shared")
    rows.append((f"{used}", f"{schedule.shared_bytes - used}", "barriers, tensor memory address"))
    return _table(f"shared memory, {schedule.shared_bytes} bytes", ("offset", "bytes", "buffer"), rows)


def _sizes(item: Placement) -> str:
    """Copies and their bytes; a last one that is shorter by itself."""
    return f"{item.depth} x {item.size}" if item.last is None else f"{item.depth - 1} x {item.size}, {item.last}"


def show_tensor(schedule: Schedule) -> str:
    """Tensor memory by column, a line a copy."""
    rows = []
    for item in schedule.placements:
        for copy in range(item.depth if item.space == "tensor" else 0):
            first = item.start(copy)
            over = f" over {item.overlays}[{copy}]" if item.overlays else ""
            rows.append((first, f"{first}-{item.end(copy) - 1}", f"{item.buffer}[{copy}]{over}"))
    lines = [row[1:] for row in sorted(rows)]
    return _table(f"tensor memory, {schedule.tensor_columns} columns", ("columns", "buffer"), lines)


def show_registers(schedule: Schedule) -> str:
    """Registers a thread, by warpgroup."""
    groups: dict[int, list[Role]] = {}
    for role in schedule.roles:
        groups.setdefault(role.warps[0] // WARPGROUP, []).append(role)
    rows = [(f"{group}", f"{roles[0].registers}", " ".join(role.name for role in roles)) for group, roles in groups.items()]
    return _table("registers", ("warpgroup", "a thread", "roles"), rows)


def show_choices(schedule: Schedule) -> str:
    """What was decided beside roles and places."""
    found = asdict(schedule.choices)
    if not found["takes_turns"]:  # only warpgroups that multiply have turns
        del found["takes_turns"]
    rows = [(name, str(value)) for name, value in found.items()]
    return _table("choices", ("choice", "value"), rows)


def show_costs(prices: Prices, masked: Prices | None = None) -> str:
    """Busy cycles of each unit a KV step, all query tiles together."""
    columns = [prices] if masked is None else [prices, masked]
    head = ("unit", "cycles a step", "with mask")[: 1 + len(columns)]
    rows = [(unit.replace("_", " "), *(f"{column.total(unit):.0f}" for column in columns)) for unit in UNITS]
    return _table("cost", head, rows)


def show_traffic(schedule: Schedule) -> str:
    """What a step loads from global memory (from L2, mostly), all of it for the query tiles in flight."""
    count = schedule.dataflow.streamed_bytes
    return f"global loads: {count} bytes a step, {count / schedule.proof.step_cycles:.0f} a cycle"


def show_critical(schedule: Schedule) -> str:
    """What bounds a step: the circle of waits of the event graph, against the busiest unit."""
    proof = schedule.proof
    unit = proof.prices.bottleneck
    busy = proof.prices.total(unit)
    rows = [
        f"bottleneck: a step takes {proof.step_cycles:.0f} cycles; the busiest unit, {unit}, works {busy:.0f} of them "
        f"({100 * busy / proof.step_cycles:.0f} %), and hand-overs take {proof.interval:.0f} in a circle:",
        "  each of these waits for the one before it, the first for the last",
        "  " + " -> ".join(f"{name} {cycles:.0f}" for name, cycles in proof.critical),
    ]
    return "\n".join(rows)


def show_tiles(schedule: Schedule) -> str:
    """What a whole work tile takes, by its steps, and the circle that decides it in a tile of several steps."""
    prices, interval = schedule.proof.prices, schedule.proof.interval
    periods = [tile_period(schedule, prices, steps) for steps in TILE_STEPS]
    rows = [(f"{found.steps}", f"{found.cycles:.0f}", f"{found.cycles - found.steps * interval:.0f}") for found in periods]
    title = "work tiles, by hand-overs alone: cycles from one to the next, and what of that its steps do not explain"
    table = _table(title, ("steps", "cycles", "beyond its steps"), rows)
    return "\n".join([table, "  decided by " + " -> ".join(_boundary(periods[-1].circle))])


def _boundary(circle: Circle) -> list[str]:
    """Operations of a circle before and after it crosses from one tile to the next, with their cycles."""
    edges = circle.edges
    at = next((index for index, edge in enumerate(edges) if edge.tokens), 0)
    turned = [*edges[at + 1 :], *edges[: at + 1]]
    names = [f"{edge.before} {edge.cycles:.0f}" for edge in turned if edge.cycles]
    return [*names[-SHOWN:], "the next tile's", *names[:SHOWN], "..."]


def show_assumptions(schedule: Schedule) -> str:
    """What the proof takes from the chip beyond the ISA."""
    title = "assumed: the tensor pipe works in the order of issue (the PTX ISA promises that for one accumulator only)"
    found = schedule.proof.assumptions
    return "\n".join([title, *(f"  {text}" for text in found)]) if found else "assumed: nothing beyond the PTX ISA"


def schedule_as_dict(schedule: Schedule) -> dict[str, Any]:
    """The schedule for JSON, without its graph; the proof without its draft."""
    proof = schedule.proof
    return {
        "target": schedule.target,
        "roles": [asdict(role) for role in schedule.roles],
        "channels": [asdict(channel) for channel in schedule.channels],
        "placements": [asdict(placement) for placement in schedule.placements],
        "choices": asdict(schedule.choices),
        "threads": schedule.threads,
        "shared_bytes": schedule.shared_bytes,
        "tensor_columns": schedule.tensor_columns,
        "cycles_a_step": {unit: proof.prices.total(unit) for unit in UNITS},
        "bottleneck": proof.prices.bottleneck,
        "interval": proof.interval,
        "step_cycles": proof.step_cycles,
        "critical": [{"operation": name, "cycles": cycles} for name, cycles in proof.critical],
        "assumptions": list(proof.assumptions),
        "streamed_bytes": schedule.dataflow.streamed_bytes,
        "tile_cycles": {steps: tile_period(schedule, proof.prices, steps).cycles for steps in TILE_STEPS},
    }


def _warps(role: Role) -> str:
    return f"{role.warps[0]}" if len(role.warps) == 1 else f"{role.warps[0]}-{role.warps[-1]}"


def _program(role: Role) -> str:
    """Operations in order, and whether the last step's are done in the first trip of the next tile."""
    return (" ".join(map(_step, role.program)) or "-") + (", on into the next tile" if role.rolls else "")


def _step(step: ProgramStep) -> str:
    return f"{step.operation}(j-{step.stage})" if step.stage else step.operation


def _channel_row(channel: Channel) -> tuple[str, ...]:
    empty = _arrivals(channel.empty) if channel.empty else f"by {channel.implied_by}"
    ends = channel.producer, " ".join(channel.consumers)
    return (channel.name, *ends, channel.ring, f"{channel.depth}", _uses(channel), _arrivals(channel.full), empty)


def _uses(channel: Channel) -> str:
    """`2J+1`, with J steps and T tiles counted from the start of the kernel."""
    terms = [(channel.uses.steps, "J"), (channel.uses.tiles, "T")]
    parts = [letter if number == 1 else f"{number}{letter}" for number, letter in terms if number]
    parts += [f"{channel.uses.offset}"] if channel.uses.offset or not parts else []
    return "+".join(parts)


def _arrivals(arrivals: Arrivals) -> str:
    counted = f"{arrivals.count} {arrivals.engine}" + (f" at {arrivals.at}" if arrivals.at != "own" else "")
    return f"{counted} {arrivals.bytes} B" if arrivals.bytes else counted


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Left-aligned columns, the last one free."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    padded = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, *(f"  {line}" for line in padded)])
