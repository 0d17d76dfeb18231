"""Which operations share a role: those that pass values in registers must; engines stay apart."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

import networkx as nx
from attnspec.lowering.dataflow.graph import Dataflow, Operation
from attnspec.lowering.schedule.schedule import ProgramStep, Role

WIDE = 4  # warps of a role that reads tensor memory: lanes 32w .. 32w + 31 belong to warp w mod 4
WARPS = 16
# What roles are called: of operations tied by registers with the warpgroups of one such role, of the other warps, of stores.
KINDS = {"forward": ("softmax", 1, "correction", "epilogue"), "backward": ("compute", 2, "reduce", "store")}
OF_ONE = "add"  # a role of untied operations where there is no tensor memory, which only warpgroups reach: of one warp
OF_ALL = "attend"  # a role that also multiplies, where results of the tensor core are in registers: a warpgroup for 64 rows
GROUP_ROWS = 64
# Where the operations of warps go that no register ties to others: to a warpgroup of their own; to that of their lane; to that of
# the other lane; or to one warpgroup beside one for the tied operations of all lanes.
Grouping = Literal["apart", "own", "other", "together"]
GROUPINGS: tuple[Grouping, ...] = ("apart", "own", "other", "together")


def assign_roles(dataflow: Dataflow, grouping: Grouping = "apart") -> tuple[Role, ...]:
    """Roles with their warps; programs in the order of the graph and registers 0, for later passes to set.

    Operations of warps tied by register values make a role for each query tile (softmax), or one of two warpgroups that halve the
    columns of a tile (compute of the backward). Those tied to none work from tensor
    and shared memory; grouped apart they share one warpgroup (correction), off the way of the tied ones; without tensor memory,
    one warp (add). Loads, stores and tensor
    operations get a warp each, so that no wait of unknown length holds up another engine (Twill, variable latency).
    """
    store_kind = KINDS[dataflow.direction][3]
    loads = [item for item in dataflow.operations if item.engine == "tma" and item.name not in dataflow.stores]
    stores = [item for item in dataflow.operations if item.name in dataflow.stores or _awaits_store(dataflow, item)]
    in_registers = dataflow.register_products
    tensor = [item for item in dataflow.operations if item.engine == "tensor" and item.name not in in_registers]
    roles, warp = [], 0
    for kind, tile, group, warps in _wide(dataflow, grouping):
        roles.append(_role(kind, tile, range(warp, warp + warps), group))
        warp += warps
    alone = _free(dataflow) if in_registers else []
    for kind, group in (("mma", tensor), ("load", loads), (store_kind, stores), (OF_ONE, alone)):
        if group:
            roles.append(_role(kind, None, range(warp, warp + 1), group))
            warp += 1
    if warp % WIDE:
        roles.append(_role("idle", None, range(warp, -(-warp // WIDE) * WIDE), ()))
    return tuple(roles)


_Wide = tuple[str, int | None, list[Operation], int]  # kind, lane, operations, warps


def _wide(dataflow: Dataflow, grouping: Grouping) -> list[_Wide]:
    """Roles of whole warpgroups."""
    kind, groups, free_kind, _ = KINDS[dataflow.direction]
    if dataflow.register_products:
        kind, groups = OF_ALL, (dataflow.tile_q if dataflow.direction == "forward" else dataflow.tile_kv) // GROUP_ROWS
    tied = _tied(dataflow)
    free = [] if dataflow.register_products else _free(dataflow)
    if dataflow.direction == "forward" and all(item.kind != "rescale" for item in free):
        free_kind = "finish"  # where nothing is rescaled there is no correction
    if grouping == "apart":
        wide = [(kind, lane, group, groups * WIDE) for lane, group in tied]
        return [*wide, *([(free_kind, None, free, WIDE)] if free else [])]
    if grouping == "together":
        return [(f"{kind}_of_all", None, _in_order(dataflow, [item for _, group in tied for item in group]), WIDE),
                (free_kind, None, free, WIDE)]  # fmt: skip
    lanes = [lane for lane, _ in tied]
    hosts = dict(zip(lanes if grouping == "own" else lanes[::-1], lanes, strict=True))
    return [
        (f"{kind}_{free_kind}", lane, [*group, *(item for item in free if hosts.get(item.query_tile, lanes[-1]) == lane)], WIDE)
        for lane, group in tied
    ]


def _free(dataflow: Dataflow) -> list[Operation]:
    """Operations of warps that no register ties to others, and no store to its warp."""
    names = {operation.name for _, group in _tied(dataflow) for operation in group}
    others = [item for item in dataflow.operations if item.engine == "threads" and item.name not in names]
    return [item for item in others if not _awaits_store(dataflow, item)]


def _in_order(dataflow: Dataflow, operations: list[Operation]) -> list[Operation]:
    return [item for item in dataflow.operations if item in operations]


def _role(kind: str, tile: int | None, warps: Iterable[int], operations: Iterable[Operation]) -> Role:
    name = kind if tile is None else f"{kind}{tile}"
    return Role(name, kind, tuple(warps), 0, tuple(ProgramStep(item.name) for item in operations), tile)


def _tied(dataflow: Dataflow) -> list[tuple[int | None, list[Operation]]]:
    """Groups of operations that pass values in registers, with their query tile, in the order of the graph."""
    in_registers = {buffer.name for buffer in dataflow.buffers if buffer.space == "register"}
    ties = nx.Graph()
    ties.add_edges_from((value.producer, value.consumer) for value in dataflow.values if value.buffer in in_registers)
    ties.add_edges_from(pairwise(sorted(dataflow.register_products)))  # the warps that have one multiply all
    groups = []
    for names in nx.connected_components(ties):
        group = [operation for operation in dataflow.operations if operation.name in names]
        groups.append((group[0].query_tile, group))
    return sorted(groups, key=lambda item: item[0] or 0)


def _awaits_store(dataflow: Dataflow, operation: Operation) -> bool:
    """Whether an operation is for the warp that stores: only that one knows when TMA has read."""
    return any(value.consumer == operation.name and value.producer in dataflow.stores for value in dataflow.values)
