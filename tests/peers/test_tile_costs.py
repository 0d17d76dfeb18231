"""The counts of docs/performance.md agree with another emulator's, which shares no code with ours."""

import pytest

from benchmarks.tile_costs import INDEPENDENT, theirs, worst


@pytest.mark.parametrize(("extra", "dim"), sorted(INDEPENDENT))
def test_counts_of_flash_attn_4_are_those_of_an_independent_counter(extra, dim):
    assert worst(theirs(extra, dim), INDEPENDENT[extra, dim]) <= 0.02
