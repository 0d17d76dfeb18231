"""Tile operations and the values that flow between them: what a kernel must do, before anyone decides who does it when.

An operation happens once a KV step or once a work tile. A work tile is `query_tiles` query tiles of `tile_q` rows that share
one stream of KV steps; operations on one query tile carry its number. An edge is a value that one operation leaves for
another, `distance` steps later.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import networkx as nx

Engine = Literal["tma", "tensor", "threads"]  # TMA unit, tensor core (asynchronous, one pipe), or warps
Rate = Literal["step", "tile"]
Space = Literal["shared", "tensor", "register", "global"]


@dataclass(frozen=True)
class Operation:
    """One tile operation; `kind` is the library's name for it, `query_tile` which of the query tiles in flight."""

    kind: str
    engine: Engine
    rate: Rate
    query_tile: int | None = None

    @property
    def name(self) -> str:
        """Unique name, `mma_qk[0]`."""
        return self.kind if self.query_tile is None else f"{self.kind}[{self.query_tile}]"


@dataclass(frozen=True)
class Buffer:
    """Where values of one sort live. size: bytes of one copy (shared, register a thread) or 32-bit columns (tensor)."""

    name: str
    space: Space
    size: int


@dataclass(frozen=True)
class Value:
    """An edge: `producer` leaves a value in `buffer` (None: no data, order alone) that `consumer` uses `distance` steps on."""

    producer: str
    consumer: str
    buffer: str | None
    distance: int = 0


@dataclass(frozen=True)
class Dataflow:
    """A kernel's graph. `direction` and the tile lengths (elements) say which kernel."""

    direction: Literal["forward", "backward"]
    tile_q: int
    tile_kv: int
    query_tiles: int
    operations: tuple[Operation, ...]
    buffers: tuple[Buffer, ...]
    values: tuple[Value, ...]

    @cached_property
    def graph(self) -> nx.MultiDiGraph:
        """The same as networkx has it: nodes by name with `operation`, edges with `value`."""
        graph = nx.MultiDiGraph()
        for operation in self.operations:
            graph.add_node(operation.name, operation=operation)
        for value in self.values:
            graph.add_edge(value.producer, value.consumer, value=value)
        return graph

    def operation(self, name: str) -> Operation:
        """The operation of that name; KeyError if there is none."""
        return self.graph.nodes[name]["operation"]

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name; KeyError if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)
