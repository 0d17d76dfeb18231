"""Prove a draft, or refuse it with the reason. Shares no code with the passes that make drafts.

Three proofs of order complete one another. The steady loop is a marked graph: live iff no circle lacks a token, whatever the
number of steps. The boundaries of tiles are unrolled: every pair of tiles of 0 to 3 steps, also with an empty one between,
so that every path that a boundary may cut is looked at; and a CTA's first, when rings have not come round yet. Long tiles
are unrolled once, past every ring's depth.
Of a pair of CTAs, both are looked at together, as one block (`pair`).
"""

from dataclasses import fields

from attnspec.lowering.schedule.check_channels import check_channels
from attnspec.lowering.schedule.check_order import BEGINNINGS, check_acyclic, check_order, windows
from attnspec.lowering.schedule.check_places import check_places
from attnspec.lowering.schedule.check_programs import check_programs
from attnspec.lowering.schedule.event_graph import Circle, check_live, critical_circle, steady_edges
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.pair import both, prices_of_both
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, Proof, Schedule
from attnspec.lowering.schedule.turn_edges import edges_in_turns


def verify(draft: Draft, limits: Limits, prices: Prices) -> Schedule:
    """The draft as a schedule. Raises ScheduleError that names the rule and what breaks it.

    prices: for the interval and the critical circle that the proof carries; they decide nothing.
    """
    check_acyclic(draft.dataflow)
    check_programs(draft, limits)
    _check_choices(draft)
    trips = windows(3)
    longest = max((channel.depth for channel in draft.channels), default=1) + 2
    trips = (*trips, longest, 1)
    check_channels(draft, trips)
    check_places(draft, limits)
    whole = both(draft)
    assumptions = check_order(whole, trips)
    for first in BEGINNINGS:
        check_order(whole, first)
    check_live(steady_edges(whole, prices_of_both(draft, prices)))
    edges = steady_edges(draft, prices)
    if draft.choices.takes_turns:
        edges = edges_in_turns(edges, draft.dataflow, prices)
        check_live(edges)
    circle = critical_circle(edges)
    interval = circle.cycles / circle.tokens if circle.tokens else 0.0
    proof = Proof(draft, prices, interval, _from_first(draft, circle), assumptions)
    return Schedule(**{item.name: getattr(draft, item.name) for item in fields(Draft)}, proof=proof)


def _from_first(draft: Draft, circle: Circle) -> tuple[tuple[str, float], ...]:
    """Operations of a circle and their cycles, from the one that comes first in the graph."""
    order = [operation.name for operation in draft.dataflow.operations]
    items = [(edge.before, edge.cycles) for edge in circle.edges]
    start = items.index(min(items, key=lambda item: order.index(item[0].partition(":")[0]))) if items else 0
    return (*items[start:], *items[:start])


def _check_choices(draft: Draft) -> None:
    """Choices that say something of the graph must say what the graph says."""
    kinds = {operation.kind for operation in draft.dataflow.operations}
    if draft.choices.needs_row_max != ("row_max" in kinds):
        raise ScheduleError("choices", "needs_row_max is not what the graph has")
    heads = [value.part for value in draft.dataflow.values if value.name == "p_head"]
    columns = draft.choices.probability_split * draft.element_bytes // 4
    if any(part != (0, columns) for part in heads):
        raise ScheduleError("choices", f"P is split after {draft.choices.probability_split} keys, the graph has {heads}")
    if draft.choices.cta_group != draft.dataflow.ctas:
        raise ScheduleError("choices", f"{draft.choices.cta_group} CTAs an operation, the graph has {draft.dataflow.ctas}")
    if not 0 <= draft.choices.emulated_share <= 1 or draft.choices.rescale_threshold < 0:
        raise ScheduleError("choices", f"{draft.choices} cannot be run")
