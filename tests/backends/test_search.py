"""Where values belong in a sorted row, as a warp and as a lane finds it, against numpy."""

import numpy as np
import pytest

from tests.backends.search_kernel import VALUES, places_of

ENDS = np.iinfo(np.int32)


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 63, 1000, 1024, 1025, 40000])
def test_a_warp_and_a_lane_find_what_numpy_finds(length: int) -> None:
    generator = np.random.default_rng(length)
    row = np.sort(generator.integers(-9, length // 3 + 9, length).astype(np.int32))
    row[-1] = ENDS.max
    ends = np.array([ENDS.min, ENDS.min + 1, ENDS.max, ENDS.max - 1, row[0], row[-1]], np.int32)
    values = np.concatenate([ends, generator.integers(-12, length // 3 + 12, VALUES - len(ends)).astype(np.int32)])
    other = np.sort(generator.integers(-9, length + 9, length // 5 + 1).astype(np.int32))
    left, right = (np.searchsorted(row, values, side) for side in ("left", "right"))
    expected = np.stack([left, right, np.searchsorted(other, values), np.searchsorted(other, left, "right")])
    found = places_of(row, other, values)
    assert np.array_equal(found[0], expected) and np.array_equal(found[1], expected)
