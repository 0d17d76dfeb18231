"""Schedules that were searched for, kept in the user's cache: a graph that the package ships no schedule for is searched once."""

from collections.abc import Mapping
from typing import Any

from attnspec.runtime.cache import Cache, open_cache

from attnspec.errors import CacheError

PREFIX = "schedule-"


class ScheduleMemory:
    """A memory of schedules; the cache is opened at the first need of it. Where none can be used, nothing is remembered."""

    def find(self, key: str) -> Mapping[str, Any] | None:
        """What an earlier search has kept."""
        cache = _cache()
        found = cache.find(PREFIX + key) if cache else None
        return found.facts if found else None

    def keep(self, key: str, data: Mapping[str, Any]) -> None:
        """Keep it, unless another process did."""
        cache = _cache()
        if cache is not None:
            try:
                cache.store(PREFIX + key, {}, data)
            except OSError:
                return  # a full or read-only disk: the next process searches again


def _cache() -> Cache | None:
    try:
        return open_cache()
    except CacheError:
        return None
