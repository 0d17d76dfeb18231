"""flash-attn-4's Hopper kernels give float64's results in the emulator, in program order and over seeds."""

import pytest

from tests.peers.cases import HOPPER_BACKWARD, HOPPER_FORWARD
from tests.peers.judge import assert_right, outcome


@pytest.mark.parametrize("case", HOPPER_FORWARD, ids=str)
def test_a_forward_is_right(case):
    assert_right(outcome(case, 2, False, "sm_90"))


@pytest.mark.parametrize("case", HOPPER_BACKWARD, ids=str)
def test_a_backward_is_right(case):
    assert_right(outcome(case, 1, True, "sm_90"))
