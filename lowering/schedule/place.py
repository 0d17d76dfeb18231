"""From a dataflow graph to a verified schedule: the passes in order."""

from collections.abc import Callable
from dataclasses import replace

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.complete import complete
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.find_solution import Memory, find_solution, rounded, search_and_keep
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.make_choices import make_choices
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.refuse_pair import refuse_pair
from attnspec.lowering.schedule.refuse_threshold import refuse_threshold
from attnspec.lowering.schedule.refuse_unsupported import refuse_unsupported
from attnspec.lowering.schedule.schedule import Draft, Schedule
from attnspec.lowering.schedule.search import Question
from attnspec.lowering.schedule.solution import Solution
from attnspec.lowering.schedule.verify import verify


def place(
    dataflow: Dataflow,
    analysed: Analysed,
    limits: Limits,
    memory: Memory | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Schedule:
    """Schedule a graph onto a chip. Raises `Unsupported` for what the chip cannot run, with the statement that asks for it.

    memory: where solutions of earlier searches are kept; tell: gets a line for each thing that a search tries.
    """
    refuse_unsupported(analysed, limits)
    if dataflow.ctas > 1:
        refuse_pair(dataflow, analysed, limits)
    question = ask(dataflow, analysed, limits)
    solution, source = find_solution(question, memory, tell)
    try:
        return _verified(question, solution)
    except ScheduleError:
        if source != "remembered":
            raise
        return _verified(question, search_and_keep(rounded(question), memory, tell))


def _verified(question: Question, solution: Solution) -> Schedule:
    made = complete(question.dataflow, solution, question.choices, question.dims, question.limits)
    return verify(made, question.limits, question.expected)


def draft(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Draft:
    """The schedule that the passes make, before it is verified."""
    question = ask(dataflow, analysed, limits)
    return complete(dataflow, find_solution(question)[0], question.choices, question.dims, limits)


def ask(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Question:
    """What is to be searched for a graph, with its prices."""
    choices = make_choices(dataflow, analysed, limits)
    refuse_threshold(choices.rescale_threshold, analysed.spec.dtype)
    always = replace(choices, rescale_threshold=0.0)
    return Question(
        dataflow=dataflow,
        choices=choices,
        dims=(analysed.spec.head_dim, analysed.spec.head_dim_v),
        limits=limits,
        expected=price(dataflow, analysed, choices, limits),
        worst=price(dataflow, analysed, always, limits),
        kinds=limits.role_kinds,
    )
