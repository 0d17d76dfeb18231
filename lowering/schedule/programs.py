"""From the starts of a timed loop to a program for each role: the operations in order, and how many steps each lags behind."""

from collections.abc import Mapping

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.modulo import Timing
from attnspec.lowering.schedule.schedule import ProgramStep, Role

LARGEST_STAGE = 1
CLOSE = 1e-3  # cycles: starts that differ by less are equal


def write_program(dataflow: Dataflow, role: Role, timing: Timing) -> tuple[ProgramStep, ...] | None:
    """The program of a role, from the circle of its starts cut where operations lag least.

    None if that is no loop of the kernels: an asynchronous operation may lag by one step, with all others of its kind, so that
    the first trip and the last leave out whole kinds; roles of warps run plain loops.
    """
    circle = _circle(dataflow, role, timing)
    cuts = [cut for cut in (_cut(circle, at, timing) for at in range(len(circle))) if _is_loop(dataflow, cut)]
    if circle and not cuts:
        return None
    program = min(cuts, key=lambda cut: (max(step.stage for step in cut), sum(step.stage for step in cut)), default=[])
    opening = [step for step in role.program if dataflow.opens_tile(step.operation)]
    for step in opening:
        program = _with_opening(dataflow, program, step, timing.starts)
    program = _waiting_late(dataflow, program)
    steps = {step.operation for step in program}
    return (*program, *(step for step in role.program if step.operation not in steps))


def _waiting_late(dataflow: Dataflow, program: list[ProgramStep]) -> list[ProgramStep]:
    """The program with waits for products in registers where their results are needed, or what they read is written again.

    The search sees no harm in an early wait where there is slack; but a product may take longer than the model says.
    """
    for product in dataflow.register_products:
        values = [value for value in dataflow.values if product in (value.producer, value.consumer)]
        wait = next(value.consumer for value in values if value.producer == product and value.buffer is not None)
        needed = {value.consumer for value in dataflow.values if value.producer == wait}
        needed |= {value.producer for value in values if value.consumer == product}
        at = next((index for index, step in enumerate(program) if step.operation == wait), len(program))
        before = next((index for index in range(at + 1, len(program)) if program[index].operation in needed), None)
        if before is not None:
            program = [*program[:at], *program[at + 1 : before], program[at], *program[before:]]
    return program


def _circle(dataflow: Dataflow, role: Role, timing: Timing) -> list[str]:
    """Operations of a step in the order of their starts within an interval; those that start together in the graph's order."""
    names = [step.operation for step in role.program if dataflow.operation(step.operation).rate == "step"]
    order = {operation.name: at for at, operation in enumerate(dataflow.operations)}

    def place(name: str) -> tuple[float, int, int]:
        trip, phase = _divided(timing.starts[name], timing.interval)
        return round(phase / CLOSE), -trip, order[name]  # of two runs that start together, that of the earlier step first

    return sorted(names, key=place)


def _cut(circle: list[str], at: int, timing: Timing) -> list[ProgramStep]:
    """The program that begins with the circle's operation `at`; what the circle has before it comes a trip later."""
    trips = {name: _divided(timing.starts[name], timing.interval)[0] for name in circle}
    lags = [(name, trips[name]) for name in circle[at:]] + [(name, trips[name] - 1) for name in circle[:at]]
    least = min(lag for _, lag in lags)
    return [ProgramStep(name, lag - least) for name, lag in lags]


def _divided(start: float, interval: float) -> tuple[int, float]:
    """Intervals before a start, and cycles into the one it falls in."""
    trip = int((start + CLOSE) // interval)
    return trip, start - trip * interval


def _is_loop(dataflow: Dataflow, program: list[ProgramStep]) -> bool:
    stages: dict[str, set[int]] = {}
    place = {step.operation: (step.stage, at) for at, step in enumerate(program)}
    for value in dataflow.values:  # the registers of a product stay where they are until it has been waited for, in one trip
        if value.producer not in dataflow.register_products & place.keys() or value.consumer not in place:
            continue
        if place[value.producer][0] != place[value.consumer][0] or place[value.producer] > place[value.consumer]:
            return False
    multiplies = any(step.operation in dataflow.register_products for step in program)  # then its trips are written out
    for step in program:
        operation = dataflow.operation(step.operation)
        stages.setdefault(operation.kind, set()).add(step.stage)
        if step.stage > (0 if operation.engine == "threads" and not multiplies else LARGEST_STAGE):
            return False
    return all(len(found) == 1 for found in stages.values())


def _with_opening(
    dataflow: Dataflow, program: list[ProgramStep], opening: ProgramStep, starts: Mapping[str, float]
) -> list[ProgramStep]:
    """The program with an operation that opens a tile, before what is needed later than that or at the same time.

    One that waits for something before, as for a place to be free, holds up nothing that need not wait: it comes last.
    """
    if any(value.consumer == opening.operation for value in dataflow.values):
        return [*program, opening]
    opened = [step.operation for step in program if dataflow.opens_tile(step.operation)]
    needed = _needed(dataflow, opening.operation, starts)
    for at, step in enumerate(program):
        later = _needed(dataflow, step.operation, starts)
        if later > needed + CLOSE or (later > needed - CLOSE and step.operation not in opened):
            return [*program[:at], opening, *program[at:]]
    return [*program, opening]


def _needed(dataflow: Dataflow, name: str, starts: Mapping[str, float]) -> float:
    """When the first reader of a value starts in the first step."""
    readers = [value.consumer for value in dataflow.values if value.producer == name and value.consumer in starts]
    return min((starts[reader] for reader in readers), default=float("inf"))
