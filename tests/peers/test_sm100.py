"""flash-attn-4's Blackwell kernels give float64's results in the emulator, in program order and over seeds."""

import pytest
from attnspec.emulator import launch
from attnspec.emulator.launch import CHECKS

from tests.peers import run
from tests.peers.cases import BACKWARD, FORWARD, PAGED
from tests.peers.float64 import draw
from tests.peers.judge import assert_right, outcome


@pytest.mark.parametrize("case", FORWARD, ids=str)
def test_a_forward_is_right(case):
    assert_right(outcome(case, 3, False))


@pytest.mark.parametrize("case", BACKWARD, ids=str)
def test_a_backward_is_right(case):
    assert_right(outcome(case, 1, True))


def test_pages_that_threads_copy_lack_a_proxy_fence():
    found = outcome(PAGED[0], 1, False)
    assert_right(found, {"missing-proxy-fence"})
    assert {kind for _, kind in found.reports} == {"missing-proxy-fence"}


def test_the_reports_that_are_explained_are_made():
    reports = outcome(next(case for case in BACKWARD if case.name == "D 64"), 0, True).reports
    assert {kind for kernel, kind in reports if "bwd_preprocess" in kernel} == {"race-global"}
    assert {kind for kernel, kind in reports if "bwd_sm100" in kernel} == {"missing-wait-group"}


@pytest.mark.parametrize("case", [case for case in FORWARD if case.dims == (256, 256)], ids=str)
def test_the_forward_of_256_has_no_wait_ld_yet_uses_every_register_before_it_hands_over(case):
    reports = []
    for checks in (CHECKS, CHECKS | {"wait-ld"}):
        run.attention(case, draw(case), lambda *a, checks=checks: reports.append(launch(*a, checks=checks)) or reports[-1], False)
    plain, strict = ({fault.kind for fault in report.faults} for report in reports)
    assert not plain and strict == {"missing-wait-ld"}
