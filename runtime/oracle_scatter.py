"""Where the oracle adds what each pair gives to an element of a learned tensor."""

from collections.abc import Mapping

import numpy as np
from attnspec.runtime.oracle_expression import evaluate
from numpy.typing import NDArray

from attnspec.language.expr import Read

Floats = NDArray[np.float64]


def scatter(
    totals: dict[str, Floats],
    spread: dict[str, Floats] | None,
    seed: Read,
    slope: Floats,
    places: Mapping[str, object],
    tensors: Mapping[str, NDArray],
) -> None:
    """Add each pair's slope, (heads, q, kv), to the element that the pair read; to spread, if wanted, what rows add."""
    extents = tensors[seed.tensor].shape
    if 0 in extents or not slope.size:
        return
    where = [
        np.broadcast_to(np.clip(evaluate(index, places, tensors).value, 0, extent - 1), slope.shape)
        for index, extent in zip(seed.indices, extents, strict=True)
    ]
    elements = np.ravel_multi_index(where, extents) if where else np.zeros(slope.shape, int)
    size = totals[seed.tensor].size
    totals[seed.tensor] += np.bincount(elements.ravel(), slope.ravel(), size).reshape(extents)
    if spread is not None:
        rows = np.arange(slope[..., 0].size).reshape(*slope.shape[:-1], 1) * size
        places_of_rows, at = np.unique((rows + elements).ravel(), return_inverse=True)
        of_rows = np.bincount(at, slope.ravel(), len(places_of_rows))
        spread[seed.tensor] += np.sqrt(np.bincount(places_of_rows % size, of_rows**2, size)).reshape(extents)
