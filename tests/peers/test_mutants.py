"""A synchronisation that is missing from flash-attn-4's forward is noticed. All of them: `python -m tests.peers.mutate`."""

import pytest

from tests.emulator.mutants import mutants
from tests.emulator.mutate import Subject
from tests.peers.mutate import DENSE, HOPPER, subject_of

KINDS = [
    "arrive dropped",
    "commit dropped",
    "fence.proxy.async dropped",
    "wait::st dropped",
    "bar.sync dropped",
    "bar.arrive dropped",
]


@pytest.fixture(scope="module")
def dense() -> Subject:
    return subject_of(DENSE)


def test_the_kernel_as_it_is_gives_no_cause(dense):
    assert not any(report.faults for report, _ in dense.whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_synchronisation_is_noticed(dense, kind):
    mutant = next(one for one in mutants(dense.text) if one.kind == kind and one.line in dense.lines)
    assert dense.examine(mutant, (None,)).found


@pytest.fixture(scope="module")
def hopper() -> Subject:
    return subject_of(HOPPER, "sm_90")


def test_the_kernel_of_hopper_as_it_is_gives_no_cause(hopper):
    assert not any(report.faults for report, _ in hopper.whole)


@pytest.mark.parametrize("kind", ["wgmma.fence dropped", "wgmma.wait_group dropped", "wgmma.commit_group dropped"])
def test_products_of_a_warpgroup_without_their_synchronisation_are_noticed(hopper, kind):
    these = [one for one in mutants(hopper.text) if one.kind == kind and one.line in hopper.lines]
    assert these and all(hopper.examine(one, (None,)).found for one in these[:3])
