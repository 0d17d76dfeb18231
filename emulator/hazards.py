"""The seam for detectors: what memories, barriers and fences tell an observer.

A detector subclasses `Observer` and overrides what it wants to hear; the machine calls it at each access and each ordering
event, whether in program order or not. Actors are warps and tasks of the asynchronous units (both have `name`, `cta`, `at`).
"""

from collections.abc import Hashable
from typing import Any


class Observer:
    """Hears all; keeps nothing."""

    def access(self, actor: Any, memory: Any, write: bool, places: Any, size: int) -> None:
        """An access. memory: the memory object. places: array of byte offsets (shared), addresses (global), or (column, lane)
        arrays (tensor memory); size: bytes at each place."""

    def release(self, actor: Any, thing: Hashable) -> None:
        """The actor publishes what it did to whoever acquires `thing` (an mbarrier, a named barrier, a task's start) later."""

    def acquire(self, actor: Any, thing: Hashable) -> None:
        """The actor sees what was published to `thing`."""

    def fence(self, actor: Any, kind: str) -> None:
        """A fence: `proxy`, `tensor_before`, `tensor_after`, `mbarrier_init`, `memory`."""

    def settled(self, actor: Any, kind: str) -> None:
        """The actor's own asynchronous accesses of a kind are complete: `tensor_load`, `tensor_store`, `bulk_read`, `bulk`."""
