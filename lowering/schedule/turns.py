"""Warpgroups of one role that multiply in turn (FA3, ping-pong), as a problem for the search.

In its turn a warpgroup begins the next step's scores and, behind them, this step's product with V.
"""

from dataclasses import replace

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.modulo import Item, Problem, Timing
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.turn_edges import PRODUCT, SCORES, TENSOR_CORE, TURN, Turns


def problem_in_turns(problem: Problem, dataflow: Dataflow, prices: Prices) -> Problem:
    """The loop of all warpgroups; a turn stands for both products. Operations of one kind are in one order in each of them."""
    turns = Turns(dataflow, prices)
    items = [item for item in problem.items if item.name not in (SCORES, PRODUCT)]
    both = sum(prices.of(name).hold for name in (SCORES, PRODUCT))
    copies = [
        Item(name, item.hold / turns.count, _serial(item, group))
        for item in (*items, Item(TURN, both, (TENSOR_CORE,)))
        if item.name in turns.own
        for group, name in enumerate(turns.names(item.name))
    ]
    others = [item for item in items if item.name not in turns.own]
    edges = (edge for before in problem.edges for edge in turns.edges(turns.merged(before)))
    labels = tuple((name, base) for base in sorted(turns.own) for name in turns.names(base))
    return Problem((*others, *copies), tuple(dict.fromkeys(edges)), problem.least, labels)


def _serial(item: Item, group: int) -> tuple[str, ...]:
    """What an operation holds alone: the tensor core is one for all warpgroups, the issue of a warpgroup its own."""
    return tuple(held if held == TENSOR_CORE else f"{held}:{group}" for held in item.serial)


def of_first_group(timing: Timing, dataflow: Dataflow, prices: Prices) -> Timing:
    """The times of the first warpgroup, by the names of the graph; the product of a step is in the turn of the next one."""
    starts = {name.removesuffix(":0"): start for name, start in timing.starts.items() if ":" not in name or name.endswith(":0")}
    begin = starts.pop(TURN)
    later = prices.of(SCORES).hold / dataflow.warpgroups
    return replace(timing, starts=starts | {SCORES: begin, PRODUCT: begin + later + timing.interval})
