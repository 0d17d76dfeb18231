"""Rows of work tiles: powers of two by shifts, other numbers as they are."""

import pytest
from attnspec.backends.cute.kernel.cut import blocks, over, times


@pytest.mark.parametrize("rows", [64, 128, 192, 256])
def test_rows_are_cut_into_blocks_of_any_size(rows: int) -> None:
    for value in (1, rows - 1, rows, rows + 1, 3 * rows, 1000):
        assert over(value, rows) == value // rows
        assert blocks(value, rows) == -(-value // rows)
        assert times(value, rows) == value * rows
