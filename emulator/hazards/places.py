"""Places of an access as indices of a ledger: slices where they are a run, else flat index arrays."""

from typing import Any

import numpy as np

Array = Any
HALF = 16  # lanes of tensor memory that are told apart: what the narrowest shapes of tcgen05.ld and .st reach
HALVES = 128 // HALF
WORD = 4  # bytes of shared memory that are told apart
UNIT = 2  # bytes of global memory


def run_or_array(index: Array) -> Any:
    """A slice, if the index is one run without gaps (in any order)."""
    low, high = int(index.min()), int(index.max()) + 1
    return slice(low, high) if high - low == index.size else index


def spread(places: Array, size: int, unit: int) -> Array:
    """Units that accesses of `size` bytes at byte offsets touch."""
    first = np.asarray(places).ravel().astype(np.int64) // unit
    if size <= unit:
        return first
    return (first[:, None] + np.arange(size // unit)).ravel()


class SharedPlaces:
    """Words of shared accesses. The offsets of tiles are kept arrays (`tile_places`, `box_places`): so are their words."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Array, Any]] = {}

    def __call__(self, places: Array, size: int) -> Any:
        if size < 16 or places.size < 32:
            return run_or_array(np.unique(spread(places, size, WORD)))
        found = self.kept.get(id(places))
        if found is None:
            if len(self.kept) > 4096:
                self.kept.clear()
            found = self.kept[id(places)] = (places, run_or_array(spread(places, size, WORD)))
        return found[1]


def tensor_places(columns: Any, lanes: Any) -> Any:
    """(column, half quadrant) of an access to tensor memory."""
    if isinstance(columns, slice) and isinstance(lanes, slice):
        halves = np.arange(lanes.start // HALF, -(-lanes.stop // HALF))
        if len(halves) == HALVES:
            return slice(columns.start * HALVES, columns.stop * HALVES)
        return (np.arange(columns.start, columns.stop)[:, None] * HALVES + halves).ravel()
    if isinstance(columns, slice):
        columns = np.arange(columns.start, columns.stop)[:, None]
    halves = lanes // HALF if isinstance(lanes, np.ndarray) else np.arange(lanes.start // HALF, -(-lanes.stop // HALF))
    if halves.ndim == 1:
        halves = np.unique(halves)
    return np.unique(np.asarray(columns) * HALVES + halves)


def clash(places: Array, values: Array) -> tuple[int, int] | None:
    """Positions of two lanes that write different values (count, lanes) to one place, None if there are none."""
    order = np.argsort(places, kind="stable")
    one, two = order[:-1], order[1:]
    alike = places[one] == places[two]
    if not alike.any():
        return None
    found = np.flatnonzero(alike & (values[:, one] != values[:, two]).any(0))
    return (int(one[found[0]]), int(two[found[0]])) if len(found) else None
