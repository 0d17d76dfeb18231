"""The order of operations in each role of the backward: the published one, as a value. The forward's is searched (`search`)."""

from dataclasses import dataclass, replace

import networkx as nx
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.schedule import ProgramStep, Role


@dataclass(frozen=True)
class Sequence:
    """Operations of a role in order, by kind or by name, with the steps they lag behind.

    by_query_tile: all kinds of one query tile before the next (mma), or all query tiles of one kind (correction).
    """

    operations: tuple[tuple[str, int], ...]
    by_query_tile: bool = True


# The backward (FA4): the products that need dS of step j - 1 stand between S and dP of step j, while that S is exponentiated.
BACKWARD = {
    "compute": Sequence(tuple((kind, 0) for kind in ("load_s", "score", "mask", "exp", "load_dp", "ds", "share_ds"))),
    "reduce": Sequence((*((f"load_dq_{at}", 0) for at in range(2)), *((f"stage_dq_{at}", 0) for at in range(16)), ("store_dv", 0), ("store_dk", 0))),
    "store": Sequence(tuple((f"reduce_dq_{at}", 0) for at in range(16))),
    "mma": Sequence((("mma_s", 0), ("mma_dk", 1), ("mma_dq", 1), ("mma_dp", 0), ("mma_dv", 0))),
    "load": Sequence(tuple((name, 0) for name in ("load_k", "load_q", "load_rows", "load_v", "load_do"))),
    "idle": Sequence(()),
}


def order_programs(dataflow: Dataflow, roles: tuple[Role, ...], orders: dict[str, Sequence] = BACKWARD) -> tuple[Role, ...]:
    """Roles with their operations in the published order; what the order does not name comes as soon as its inputs are there."""
    return tuple(replace(role, program=_program(dataflow, role, orders[role.kind])) for role in roles)


def _program(dataflow: Dataflow, role: Role, order: Sequence) -> tuple[ProgramStep, ...]:
    stages = dict(order.operations)
    names = [step.operation for step in role.program]
    steps = {name: ProgramStep(name, stages.get(name, stages.get(dataflow.operation(name).kind, 0))) for name in names}
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    for value in dataflow.values:
        ends = value.producer, value.consumer
        if ends[0] in steps and ends[1] in steps and value.distance + steps[ends[1]].stage == steps[ends[0]].stage:
            graph.add_edge(*ends)
    ranks = {name: _rank(dataflow, name, order) for name in names}
    return tuple(steps[name] for name in nx.lexicographical_topological_sort(graph, key=ranks.__getitem__))


def _rank(dataflow: Dataflow, name: str, order: Sequence) -> tuple[int, ...]:
    """Where an operation stands among those that are ready; first if the order does not name it."""
    operation = dataflow.operation(name)
    names = [item for item, _ in order.operations]
    place = next((names.index(item) for item in (name, operation.kind) if item in names), -1)
    tile = operation.query_tile or 0
    first, second = (tile, place) if order.by_query_tile else (place, tile)
    return first, second, dataflow.operations.index(operation)
