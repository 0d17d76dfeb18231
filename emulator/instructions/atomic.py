"""atom and red, in global and shared memory, also of other CTAs. PTX ISA 9.7.13.5 (atom), 9.7.13.7 (red).

Lanes that meet at one address take turns, the lowest first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.memory import ORDERINGS, SPACES, VECTORS, lanes_of, space_of, spread
from attnspec.emulator.instructions.rule import (
    BITS,
    Act,
    Rows,
    Rule,
    address_type,
    items_of,
    kind_of,
    only,
    unsupported,
)
from attnspec.emulator.machine.address import by_cta, window
from attnspec.emulator.machine.layout import SHARED_WINDOW
from attnspec.emulator.numerics.reductions import HALVES, OPERATIONS, combine
from attnspec.emulator.ptx.operands import Address, Instruction, Sink

WORDS = ("acq_rel", "sc", "noftz", "L2::cache_hint", "shared::cta", "shared::cluster", *ORDERINGS, *SPACES, *VECTORS)


def atomic(instruction: Instruction) -> Rule:
    """atom[.SEM][.SCOPE][.SPACE].OP[.VECTOR].TYPE d, [a], b[, c], and red without d"""
    words = instruction.parts
    name = next((word for word in words if word in OPERATIONS), None)
    if name is None or (words[0] == "red" and name in ("exch", "cas")) or "async" in words:
        raise unsupported(instruction, "this operation")
    only(instruction, name, words[-1], *WORDS)
    returns = words[0] == "atom"
    target, address, *values = instruction.operands if returns else (Sink(), *instruction.operands)
    if not isinstance(address, Address):
        raise unsupported(instruction, "wanted an address in brackets")
    values = values[: 2 if name == "cas" else 1]
    type = words[-1] if words[-1] in HALVES else kind_of(instruction, words[-1])
    raw = f"u{BITS[kind_of(instruction, words[-1])]}"
    space = space_of(instruction)
    flushes = type == "f32" and space in ("global", "generic")
    call = partial(exchange, space=space, operation=name, type=type, flushes=flushes)
    reads = ((address, address_type(instruction, address)), *((Rows(items_of(value)), raw) for value in values))
    writes = ((Rows(items_of(target)) if len(items_of(target)) > 1 else target, raw),) if returns else ()
    return Act(call, reads, writes, unit=f"atom.{space}")


def exchange(warp: Any, mask: Any, addresses: Any, *values: Any, space: str, operation: str, type: str, flushes: bool) -> Any:
    """What was there before, (lanes,) or (count, lanes)."""
    active, *given = lanes_of(mask, addresses, *values)
    count, size = given[0].shape[0], given[0].itemsize
    at = window(active) if space == "generic" else SHARED_WINDOW if space == "shared" else 0
    if space not in ("generic", "shared", "global") or at not in (0, SHARED_WINDOW):
        raise KernelFault("wrong-space", f"an atomic operation on {space} memory")
    if at == SHARED_WINDOW:
        parts = [(cta.shared, np.arange(len(active))[lanes], offsets) for cta, lanes, offsets in by_cta(warp, active)]
    else:
        parts = [(warp.machine.memory, np.arange(len(active)), active)]
    before = np.zeros((count, len(active)), given[0].dtype)
    for memory, lanes, places in parts:
        with told(memory, warp, places, size * count):
            for turn in turns(places):
                old = memory.load(warp, places[turn], size, count)
                new = combine(operation, type, old, *(one[:, lanes[turn]] for one in given), flushes=flushes)
                memory.store(warp, places[turn], new, size)
                before[:, lanes[turn]] = old
    result = spread(mask, before)
    return result if count > 1 else result[0]


def turns(places: Any) -> Iterator[Any]:
    """Positions of lanes, in groups without two at one place."""
    left = np.arange(len(places))
    while len(left):
        first = np.sort(np.unique(places[left], return_index=True)[1])
        yield left[first]
        left = np.delete(left, first)


@contextmanager
def told(memory: Any, actor: Any, places: Any, size: int) -> Iterator[None]:
    """The observer hears of one atomic access, not of its read and its write."""
    observer, memory.observer = memory.observer, None
    try:
        yield
    finally:
        memory.observer = observer
    if observer is not None:
        observer.access(actor, memory, True, places, size, atomic=True)


TABLE = {"atom": atomic, "red": atomic}
