"""The seam for detectors: what memories, barriers and fences tell an observer.

A detector subclasses `Observer` and overrides what it wants to hear; the machine calls it at each access and each ordering
event, whether in program order or not. Actors are warps and tasks of the asynchronous units (both have `name`, `cta`, `at`).
"""

from collections.abc import Hashable, Sequence
from typing import Any


class Observer:
    """Hears all; keeps nothing."""

    def access(self, actor: Any, memory: Any, write: bool, places: Any, size: int, atomic: bool = False) -> None:
        """An access. actor: None means the machine's. memory: the memory object. places: array of byte offsets (shared),
        addresses (global), or (column, lane) arrays (tensor memory); size: bytes at each place. atomic: no race among such."""

    def stored(self, actor: Any, memory: Any, places: Any, values: Any) -> None:
        """Lanes of one instruction have written values (count, lanes), each from its place (lanes,) on."""

    def issue(self, warp: Any, task: Any, pipe: Any = None) -> None:
        """The warp starts a task; what it knows now, the task knows. pipe: tasks of one pipe run one after another."""

    def release(self, actor: Any, thing: Hashable) -> None:
        """The actor publishes what it did to whoever acquires `thing` (an mbarrier, a named barrier, an address) later. A barrier
        tells of it before its `phase` or `generation` changes."""

    def acquire(self, actor: Any, thing: Hashable) -> None:
        """The actor sees what was published to `thing` in phases that have ended."""

    def fence(self, actor: Any, kind: str) -> None:
        """A fence: `proxy`, `tensor_before`, `tensor_after`, `mbarrier_init`, `memory`, and `warp` among lanes."""

    def settled(self, actor: Any, kind: str, tasks: Sequence[Any] = ()) -> None:
        """The actor's own asynchronous accesses of a kind are complete: `tensor_load` and `tensor_store` (all), `tensor_use`
        (loads whose registers are used before a wait::ld), `bulk_read` and
        `bulk` (those of `tasks`)."""

    def initialise(self, actor: Any, barrier: Any) -> None:
        """An mbarrier is made."""

    def watch(self, warp: Any) -> Any:
        """What shall hear, by `enter(block)`, of each block that a warp runs; None if nothing."""
        return None

    def left(self, warp: Any) -> None:
        """A warp has exited."""
