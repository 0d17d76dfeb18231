"""Tile operations and the values that flow between them: what a kernel must do, before anyone decides who does it when.

An operation happens once a KV step or once a work tile. A work tile is `query_tiles` query tiles of `tile_q` rows that share
one stream of KV steps; operations on one query tile carry its number. An edge is a value that one operation leaves for
another, `distance` steps later.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import networkx as nx

GROUP_ROWS = 64  # rows of a product that a warpgroup has in its registers (PTX ISA, wgmma: M)
Engine = Literal["tma", "tensor", "threads"]  # TMA unit, tensor core (asynchronous, one pipe), or warps
Rate = Literal["step", "tile"]
Space = Literal["shared", "tensor", "register", "global"]


@dataclass(frozen=True)
class Operation:
    """One tile operation; `kind` is the library's name for it, `query_tile` which of the query tiles in flight.

    note: what it is there for, where the variant decides that (the mask hides keys of the file, or only the tail of the keys).
    joint: one run of it serves both CTAs of a pair, and works on the memory of both; every other operation is run by each CTA.
    """

    kind: str
    engine: Engine
    rate: Rate
    query_tile: int | None = None
    note: str = ""
    joint: bool = False

    @property
    def name(self) -> str:
        """Unique name, `mma_qk[0]`."""
        return self.kind if self.query_tile is None else f"{self.kind}[{self.query_tile}]"


@dataclass(frozen=True)
class Buffer:
    """Where values of one sort live. size: bytes of one copy (shared, register a thread) or 32-bit columns (tensor).

    over: buffer in whose place this one lies, since the graph orders what uses the one and the other.
    in_turn: all lanes have one copy, since the graph orders who uses it when; else each that writes it has its own.
    """

    name: str
    space: Space
    size: int
    over: str | None = None
    in_turn: bool = False


@dataclass(frozen=True)
class Value:
    """An edge: `producer` leaves a value in `buffer` (None: no data, order alone) that `consumer` uses `distance` steps on.

    name: what the value is called; edges of one producer and one name are one value with several readers.
    part: half-open range of the buffer's units that it fills (None: all of one copy).
    distance: of an order without data also -1, for a consumer that waits for the step after its own, where the tile has one.
    Between operations of the tile it counts tiles.
    spreads: in a pair of CTAs, the value of each goes to the buffers of both, half of it to each: that of the first CTA to
    `part`, that of the second to the range after it.
    seldom: the consumer touches the buffer only in some of its runs (a rescale that some row asks for), and waits in those alone.
    """

    producer: str
    consumer: str
    buffer: str | None
    distance: int = 0
    name: str = ""
    part: tuple[int, int] | None = None
    spreads: bool = False
    seldom: bool = False


@dataclass(frozen=True)
class Dataflow:
    """A kernel's graph. `direction` and the tile lengths (elements) say which kernel. key_tiles: of a step, where there is one
    query tile and operations carry the number of the key tile instead.

    ctas: that share a stream and its joint operations. Each has query tiles (of a backward: a key tile), and buffers, of its
    own; of what is streamed it has its share, and the sizes say how much that is.
    deterministic: of a backward, whether what CTAs add up has the same bits on every run.
    together: groups of a role's operations that it runs as one, a few elements at a time: it waits for all that they wait for
    before the first of them begins, and signals all that they signal when the last has ended.
    """

    direction: Literal["forward", "backward"]
    tile_q: int
    tile_kv: int
    query_tiles: int
    operations: tuple[Operation, ...]
    buffers: tuple[Buffer, ...]
    values: tuple[Value, ...]
    key_tiles: int = 1
    ctas: int = 1
    deterministic: bool = False
    together: tuple[tuple[str, ...], ...] = ()

    @property
    def lanes(self) -> int:
        """Tiles of scores in flight, which operations tell apart by their `query_tile`: query tiles, or key tiles of one."""
        return self.query_tiles * self.key_tiles

    @property
    def work_rows(self) -> int:
        """Rows of a work tile, of all CTAs that share it."""
        return self.tile_q * self.query_tiles * self.ctas

    @property
    def streamed_bytes(self) -> int:
        """Bytes that TMA loads from global memory every step."""
        loads = {item.name for item in self.operations if item.engine == "tma" and item.rate == "step"}
        places = {(item.producer, item.name): item for item in self.values if item.producer in loads and item.buffer}
        ranges = ((item.part or (0, self.buffer(str(item.buffer)).size)) for item in places.values())
        return sum(last - first for first, last in ranges)

    @cached_property
    def graph(self) -> nx.MultiDiGraph:
        """The same as networkx has it: nodes by name with `operation`, edges with `value`."""
        graph = nx.MultiDiGraph()
        for operation in self.operations:
            graph.add_node(operation.name, operation=operation)
        for value in self.values:
            graph.add_edge(value.producer, value.consumer, value=value)
        return graph

    @cached_property
    def _by_name(self) -> dict[str, Operation]:
        return {operation.name: operation for operation in self.operations}

    @cached_property
    def register_products(self) -> frozenset[str]:
        """Tensor operations whose results are in registers of the warps that issue them (wgmma), and wait for them themselves."""
        registers = {buffer.name for buffer in self.buffers if buffer.space == "register"}
        written = {value.producer for value in self.values if value.buffer in registers}
        return frozenset(operation.name for operation in self.operations if operation.engine == "tensor") & written

    @cached_property
    def stores(self) -> frozenset[str]:
        """Operations by which TMA reads shared memory: they leave nothing there, and their own warp waits until all is read."""
        leave = {value.producer for value in self.values if value.buffer is not None}
        return frozenset(operation.name for operation in self.operations if operation.engine == "tma") - leave

    @property
    def warpgroups(self) -> int:
        """Warpgroups that multiply for themselves, each for its rows of a tile; 1 where none does."""
        rows = self.tile_q if self.direction == "forward" else self.tile_kv
        return rows // GROUP_ROWS if self.register_products else 1

    def operation(self, name: str) -> Operation:
        """The operation of that name; KeyError if there is none."""
        return self._by_name[name]

    def group_of(self, name: str) -> tuple[str, ...]:
        """The operations that one is run together with, in order, itself among them."""
        return next((group for group in self.together if name in group), (name,))

    def opens_tile(self, name: str) -> bool:
        """Whether a tile's operation comes before the steps that use it (`load_q`), and so only in tiles that have steps.

        So does what such an operation waits for in the same tile. The other operations of a tile come after its last step, and
        in tiles without steps too (`finish`).
        """
        if self.operation(name).rate == "step":
            return False
        edges = [value for value in self.values if value.producer == name]
        feeds_step = any(self.operation(value.consumer).rate == "step" for value in edges)
        return feeds_step or any(self.opens_tile(value.consumer) for value in edges if not value.distance)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name; KeyError if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)
