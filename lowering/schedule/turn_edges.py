"""Edges between events of warpgroups of one role that multiply in turn: while one exponentiates, the others have the tensor core.

Edges of a role are those of all its warpgroups at once. Here each has operations of its own, `exp:0`, `exp:1`, which take their
share of the cycles, and the tensor core goes to the next one when it is done with a trip's products.
"""

from collections.abc import Iterator, Sequence

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.event_graph import EventEdge
from attnspec.lowering.schedule.prices import Prices

TENSOR_CORE = "tensor core"
SCORES, PRODUCT, TURN = "mma_qk", "mma_pv", "turn"


def edges_in_turns(edges: Sequence[EventEdge], dataflow: Dataflow, prices: Prices) -> tuple[EventEdge, ...]:
    """The event graph of all warpgroups, products of one after those of the other."""
    turns = Turns(dataflow, prices)
    return tuple(dict.fromkeys(edge for before in edges for edge in turns.edges(before)))


class Turns:
    """Names and cycles of warpgroups."""

    def __init__(self, dataflow: Dataflow, prices: Prices) -> None:
        self.prices, self.count = prices, dataflow.warpgroups
        self.own = {item.name for item in dataflow.operations if item.rate == "step" and item.engine != "tma"} | {TURN}
        self.scores = prices.of(SCORES).hold

    def names(self, name: str) -> list[str]:
        """An operation of each warpgroup; or the one of a role of which there is one."""
        return [f"{name}:{group}" for group in range(self.count)] if name in self.own else [name]

    def merged(self, edge: EventEdge) -> EventEdge:
        """An edge from or to a product as one from or to the turn that it is in: the second product comes a step later."""
        before, after, tokens, cycles = edge.before, edge.after, edge.tokens, self.shared(edge)
        if before == PRODUCT:
            tokens, cycles = tokens - 1, cycles + self.scores / self.count
        if after == PRODUCT:
            tokens, cycles = tokens + 1, cycles - self.scores / self.count
        before, after = (TURN if name in (SCORES, PRODUCT) else name for name in (before, after))
        return EventEdge(before, after, tokens, cycles, edge.reason)

    def edges(self, edge: EventEdge) -> Iterator[EventEdge]:
        """An edge in each of them. Where the tensor core is done with a trip's products, it is the next one's turn."""
        cycles = edge.cycles if TURN in (edge.before, edge.after) else self.shared(edge)
        for group in range(self.count):
            before, after = (self.names(name)[group if name in self.own else 0] for name in (edge.before, edge.after))
            tokens = edge.tokens
            if edge.reason == TENSOR_CORE and tokens:
                last = group + 1 == self.count
                after, tokens = f"{edge.after}:{(group + 1) % self.count}", int(last)
            yield EventEdge(before, after, tokens, cycles, edge.reason)

    def shared(self, edge: EventEdge) -> float:
        """The cycles of one warpgroup: its share of what the operation holds, and all of what it waits beyond."""
        if edge.before not in self.own:
            return edge.cycles
        hold = self.prices.of(edge.before).hold
        return edge.cycles - hold * (1 - 1 / self.count) if edge.cycles >= hold else edge.cycles
