"""Roles, order and places by search: the least interval first, then what a loop does not see, then simplicity.

Few things are enumerated (how the operations of warps are grouped into roles, whether P lies over S), the order is found by
modulo scheduling, and what comes out is judged by the event graph of the draft that follows from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.assign_roles import GROUPINGS, Grouping, assign_roles
from attnspec.lowering.schedule.complete import complete, find_depths, statement
from attnspec.lowering.schedule.event_graph import critical_circle, steady_edges
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.loop_problem import loop_problem
from attnspec.lowering.schedule.modulo import Timing, least_interval
from attnspec.lowering.schedule.place_buffers import OVERLAYS, place_buffers
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.programs import write_program
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.roll import rolled
from attnspec.lowering.schedule.schedule import Choices, Draft, Role
from attnspec.lowering.schedule.solution import Solution
from attnspec.lowering.schedule.tile_graph import tile_overhead
from attnspec.lowering.schedule.turn_edges import edges_in_turns
from attnspec.lowering.schedule.turns import of_first_group, problem_in_turns

USUAL_STEPS = 32  # of a tile, over which its overhead is spread
USUAL_KEYS = 4096  # the same where forms have steps of different lengths
EQUAL = 0.01  # costs that differ by less are equal: the cost table is no better than that
WARPGROUP = 4


@dataclass(frozen=True)
class Question:
    """What is searched for: the schedule of a graph on a chip.

    expected: prices of a usual step; worst: of one in which every branch is taken. dims: head dimensions. kinds: roles of whole
    warpgroups that the target's library has; None: any.
    """

    dataflow: Dataflow
    choices: Choices
    dims: tuple[int, int]
    limits: Limits
    expected: Prices
    worst: Prices
    kinds: frozenset[str] | None = None


@dataclass(frozen=True)
class Candidate:
    """A solution with what it is judged by. cycles: a step of a usual tile, its share of the tile's overhead with it."""

    solution: Solution
    timing: Timing
    cycles: float
    worst: float
    overhead: float

    @property
    def warpgroups(self) -> int:
        """Roles of whole warpgroups."""
        return sum(len(role.warps) >= WARPGROUP for role in self.solution.roles)

    @property
    def length(self) -> float:
        """Cycles from the first start of a step to its last."""
        return max(self.timing.starts.values()) - min(self.timing.starts.values())


def search(question: Question, tell: Callable[[str], None] = lambda text: None) -> Candidate:
    """The best solution. Raises ScheduleError if there is none."""
    found: list[Candidate] = []
    for name, roles, separate in _starts(question):
        candidate = attempt(question, roles, separate)
        tell(f"{name}: {'no schedule' if candidate is None else f'{candidate.cycles:.0f} cycles a step'}")
        found += [candidate] if candidate else []
    if not found:
        raise ScheduleError("no-schedule", "no grouping of operations into roles has an order")
    return best(found)


def best(found: Sequence[Candidate]) -> Candidate:
    """By cycles a step, then by the worst step; then the fewest warpgroups, the shortest schedule, the least apart."""
    for cost in (lambda item: item.cycles, lambda item: item.worst):
        least = min(map(cost, found))
        found = [item for item in found if cost(item) <= least * (1 + EQUAL)]
    return min(found, key=lambda item: (item.warpgroups, len(item.solution.separate), item.length))


def _starts(question: Question) -> Iterator[tuple[str, tuple[Role, ...], tuple[str, ...]]]:
    """Groupings into roles, each with P over S and, where columns suffice, apart."""
    flow = question.dataflow
    for grouping in _groupings(flow):
        roles = assign_roles(flow, grouping)
        wide = {role.kind for role in roles if len(role.warps) >= WARPGROUP}
        if question.kinds is None or wide <= question.kinds:
            has_columns = any(item.space == "tensor" for item in flow.buffers)
            for separate in ((), tuple(OVERLAYS["forward"])) if has_columns else ((),):
                if not separate or (flow.direction == "forward" and _columns(question) <= question.limits.tensor_columns):
                    yield f"{grouping}{', apart' if separate else ''}", roles, separate


def _groupings(dataflow: Dataflow) -> Sequence[Grouping]:
    """Those that make sense: what closes a tile belongs to no lane of a query tile's key tiles, and the backward has no lanes."""
    has_lanes = dataflow.direction == "forward" and dataflow.key_tiles == 1 and not dataflow.register_products
    return GROUPINGS if has_lanes else GROUPINGS[:1]


def _columns(question: Question) -> int:
    """Columns of all buffers side by side."""
    depths = find_depths(question.dataflow, question.dims, question.limits)
    return sum(item.size * depths[item.name] for item in question.dataflow.buffers if item.space == "tensor")


def attempt(question: Question, roles: tuple[Role, ...], separate: tuple[str, ...]) -> Candidate | None:
    """The candidate of one grouping and placement; None if the kernels have no loop for its order."""
    timing = time(question, roles, separate)
    programs = {role.name: write_program(question.dataflow, role, timing) for role in roles} if timing else {}
    if timing is None or any(program is None for program in programs.values()):
        return None
    draining = tuple(replace(role, program=programs[role.name] or ()) for role in roles)
    rolling = rolled(question.dataflow, draining)
    found = [_candidate(question, Solution(each, separate), timing) for each in (draining, rolling) if each]
    return min(found, key=lambda candidate: candidate.overhead)


def cycles_of_key(question: Question, solution: Solution) -> float:
    """Cycles of a key in a usual tile under a solution, with its share of the tile's overhead."""
    draft = _drafted(question, solution)
    interval = _interval(draft, question.expected)
    return interval / draft.dataflow.tile_kv + tile_overhead(draft, question.expected, interval) / USUAL_KEYS


def _drafted(question: Question, solution: Solution) -> Draft:
    return complete(question.dataflow, solution, question.choices, question.dims, question.limits)


def _candidate(question: Question, solution: Solution, timing: Timing) -> Candidate:
    draft = _drafted(question, solution)
    interval, worst = (_interval(draft, prices) for prices in (question.expected, question.worst))
    overhead = tile_overhead(draft, question.expected, interval)
    return Candidate(solution, timing, max(interval, timing.interval) + overhead / USUAL_STEPS, worst, overhead)


def _interval(draft: Draft, prices: Prices) -> float:
    edges = steady_edges(draft, prices)
    circle = critical_circle(edges_in_turns(edges, draft.dataflow, prices) if draft.choices.takes_turns else edges)
    return circle.cycles / circle.tokens


def time(question: Question, roles: Sequence[Role], separate: Sequence[str]) -> Timing | None:
    """The loop's order of least interval once operations are grouped and buffers placed.

    Products into one accumulator stay next to each other, in one stage: kernels wait for it before the first of them.
    """
    flow = question.dataflow
    depths = find_depths(flow, question.dims, question.limits)
    placements = place_buffers(flow, depths, question.limits, statement(question.dims), separate)
    overlays = {item.buffer: item.overlays for item in placements if item.overlays is not None}
    names = _role_names(flow, roles)
    problem = loop_problem(flow, names, depths, question.expected, overlays, glued=True)
    if not question.choices.takes_turns:
        return least_interval(problem)
    found = least_interval(problem_in_turns(problem, flow, question.expected))
    return found and of_first_group(found, flow, question.expected)


def _role_names(dataflow: Dataflow, roles: Sequence[Role]) -> Mapping[str, str]:
    names = {step.operation: role.name for role in roles for step in role.program}
    return {operation.name: names[operation.name] for operation in dataflow.operations if operation.rate == "step"}
