"""Basic blocks, and where diverged lanes of a warp meet again."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
from attnspec.emulator.ptx.operands import Instruction, Kernel, Label

ENDS = ("bra", "bra.uni", "ret", "exit", "trap")


@dataclass(frozen=True)
class Block:
    """Instructions [first, last) of a kernel. successors: taken branch first; join: where all its paths meet."""

    index: int
    first: int
    last: int
    successors: tuple[int, ...]
    join: int


EXIT = -1


def blocks(kernel: Kernel, begins: Callable[[Instruction], bool]) -> tuple[Block, ...]:
    """Cut a kernel at labels, after branches, and before each instruction that `begins` a block (one that may block)."""
    code = kernel.instructions
    starts = {0, len(code)}
    for position, instruction in enumerate(code):
        if instruction.opcode in ENDS:
            starts.add(position + 1)
        if isinstance(label := target(instruction), Label):
            starts.add(label.position)
        if begins(instruction):
            starts.add(position)
    order = sorted(starts)
    number = {position: index for index, position in enumerate(order)}
    spans = list(pairwise(order))
    following = [successors(code[last - 1], number, index) for index, (_, last) in enumerate(spans)]
    # A label after the last instruction, or code that falls off the end, is the exit.
    following = [tuple(EXIT if at >= len(spans) else at for at in each) for each in following]
    joins = join_points(following)
    return tuple(Block(index, first, last, following[index], joins.get(index, EXIT)) for index, (first, last) in enumerate(spans))


def target(instruction: Instruction) -> Label | None:
    """The label a branch names."""
    first = instruction.operands[0] if instruction.operands else None
    return first if isinstance(first, Label) else None


def successors(last: Instruction, number: dict[int, int], index: int) -> tuple[int, ...]:
    """Blocks that may follow one that ends with `last`."""
    label = target(last)
    ways = [] if label is None else [number[label.position]]
    if label is None and last.opcode in ENDS:
        ways = [EXIT]
    if last.opcode not in ENDS or last.guard is not None:
        ways.append(index + 1)
    return tuple(ways)


def join_points(following: list[tuple[int, ...]]) -> dict[int, int]:
    """Immediate post-dominator of each block that can reach the exit."""
    graph = nx.DiGraph()
    graph.add_node(EXIT)
    for index, ways in enumerate(following):
        graph.add_edges_from((way, index) for way in ways)
    return dict(nx.immediate_dominators(graph, EXIT))
