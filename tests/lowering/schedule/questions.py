"""Questions for the search."""

from dataclasses import replace
from typing import Any

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.assign_roles import Grouping, assign_roles
from attnspec.lowering.schedule.complete import complete
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.modulo import Timing
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.schedule import Draft
from attnspec.lowering.schedule.search import Candidate, Question, attempt, time

from tests.lowering.by_hand import DOUBLED, analysed

# The cost sets of the public models of FA4's forward: every step rescales; one in ten does, and an eighth is emulated.
ALWAYS = {"rescale_threshold": 0.0, "emulated_share": 0.0}
LAZY = {"rescale_threshold": 8.0, "emulated_share": 0.125}


def question(variant: Analysed, **choices: Any) -> Question:
    """What is to be searched for a variant's forward under other choices, with no regard to what kernels there are."""
    asked = ask(draw(variant, "forward"), variant, LIMITS)
    chosen = replace(asked.choices, **choices)
    return replace(asked, choices=chosen, expected=price(asked.dataflow, variant, chosen, LIMITS), kinds=None)


def bounded(head_dim: int = 128) -> Analysed:
    """A variant whose score needs no maximum."""
    found = analysed(head_dim, score=DOUBLED)
    return replace(found, bounds=replace(found.bounds, low=-30.0, high=30.0, needs_row_max=False))


def timed(asked: Question, grouping: Grouping, separate: tuple[str, ...] = ()) -> Timing:
    """The steady loop's best order for one grouping into roles."""
    found = time(asked, assign_roles(asked.dataflow, grouping), separate)
    assert found is not None
    return found


def draft_of(asked: Question, grouping: Grouping, separate: tuple[str, ...] = ()) -> Draft:
    """The draft of one grouping's best order."""
    found = attempt(asked, assign_roles(asked.dataflow, grouping), separate)
    assert found is not None
    return complete(asked.dataflow, found.solution, asked.choices, asked.dims, LIMITS)


def program(found: Candidate, role: str) -> str:
    """A role's program, an apostrophe for each step of lag."""
    steps = next(item.program for item in found.solution.roles if item.name == role)
    return " ".join(step.operation + "'" * step.stage for step in steps)
