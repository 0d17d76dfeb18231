"""Which operations share a role: those that pass values in registers must; engines stay apart."""

from collections.abc import Iterable

import networkx as nx
from attnspec.lowering.dataflow.graph import Dataflow, Operation
from attnspec.lowering.schedule.schedule import ProgramStep, Role

WIDE = 4  # warps of a role that reads tensor memory: lanes 32w .. 32w + 31 belong to warp w mod 4
WARPS = 16
# What roles are called: of operations tied by registers with the warpgroups of one such role, of the other warps, of stores.
KINDS = {"forward": ("softmax", 1, "correction", "epilogue"), "backward": ("compute", 2, "reduce", "store")}


def assign_roles(dataflow: Dataflow) -> tuple[Role, ...]:
    """Roles with their warps; programs in the order of the graph and registers 0, for later passes to set.

    Operations of warps tied by register values make a role for each query tile (softmax), or one of two warpgroups that halve the
    columns of a tile (compute of the backward). Those tied to none work from tensor
    and shared memory and share one warpgroup (correction), off the way of the tied ones. Loads, stores and tensor operations
    get a warp each, so that no wait of unknown length holds up another engine (Twill, variable latency).
    """
    tied_kind, groups, free_kind, store_kind = KINDS[dataflow.direction]
    wide = [(tied_kind, tile, group, groups * WIDE) for tile, group in _tied(dataflow)]
    tied = {operation.name for _, _, group, _ in wide for operation in group}
    loads = [item for item in dataflow.operations if item.engine == "tma" and _feeds(dataflow, item)]
    stores = [item for item in dataflow.operations if item.engine == "tma" and not _feeds(dataflow, item)]
    threads = [item for item in dataflow.operations if item.engine == "threads" and item.name not in tied]
    tensor = [item for item in dataflow.operations if item.engine == "tensor"]
    roles, warp = [], 0
    for kind, tile, group, warps in [*wide, (free_kind, None, threads, WIDE)]:
        if group:
            roles.append(_role(kind, tile, range(warp, warp + warps), group))
            warp += warps
    for kind, group in (("mma", tensor), ("load", loads), (store_kind, stores)):
        if group:
            roles.append(_role(kind, None, range(warp, warp + 1), group))
            warp += 1
    if warp % WIDE:
        roles.append(_role("idle", None, range(warp, -(-warp // WIDE) * WIDE), ()))
    return tuple(roles)


def _role(kind: str, tile: int | None, warps: Iterable[int], operations: Iterable[Operation]) -> Role:
    name = kind if tile is None else f"{kind}{tile}"
    return Role(name, kind, tuple(warps), 0, tuple(ProgramStep(item.name) for item in operations), tile)


def _tied(dataflow: Dataflow) -> list[tuple[int | None, list[Operation]]]:
    """Groups of operations that pass values in registers, with their query tile, in the order of the graph."""
    in_registers = {buffer.name for buffer in dataflow.buffers if buffer.space == "register"}
    ties = nx.Graph()
    ties.add_edges_from((value.producer, value.consumer) for value in dataflow.values if value.buffer in in_registers)
    groups = []
    for names in nx.connected_components(ties):
        group = [operation for operation in dataflow.operations if operation.name in names]
        groups.append((group[0].query_tile, group))
    return sorted(groups, key=lambda item: item[0] or 0)


def _feeds(dataflow: Dataflow, operation: Operation) -> bool:
    return any(value.producer == operation.name for value in dataflow.values)
