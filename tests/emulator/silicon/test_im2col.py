"""Columns that TMA loads in im2col mode, and replaced fields of descriptors, in the emulator and on an H200."""

import numpy as np
import pytest

from tests.emulator.silicon.im2col import loads, replaced
from tests.emulator.silicon.test_answers import answers, run
from tests.emulator.silicon.tiles import ROOM

LIVE = 64  # bytes of a descriptor that are told: the driver's others mean nothing to the emulator


@pytest.mark.parametrize("probe", loads(), ids=lambda probe: probe.name)
def test_a_column_and_its_descriptor_are_those_of_an_h200(probe):
    wanted = answers("im2col")[f"{probe.name}/out"].view(np.uint8)
    got = run(probe, None)["out"].view(np.uint8)
    assert np.array_equal(got[: ROOM + 4], wanted[: ROOM + 4])
    assert np.array_equal(got[ROOM + 16 :][:LIVE], wanted[ROOM + 16 :][:LIVE])


def test_replaced_fields_lie_where_an_h200_puts_them():
    probe = replaced()
    wanted = answers("im2col")[f"{probe.name}/out"]
    got = run(probe, None)["out"].reshape(wanted.shape)
    assert np.array_equal(got[:, : LIVE // 8], wanted[:, : LIVE // 8])
