"""A synchronisation that is missing from flash-attn-4's forward is noticed. All of them: `python -m tests.peers.mutate`."""

import pytest

from tests.emulator.mutants import Mutant, mutants
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


def of_kind(subject: Subject, kind: str) -> list[Mutant]:
    return [one for one in mutants(subject.text) if one.kind == kind and one.line in subject.lines]


@pytest.mark.parametrize("kind", ["wgmma.wait_group dropped", "wgmma.commit_group dropped"])
def test_products_of_a_warpgroup_without_their_synchronisation_are_noticed(hopper, kind):
    these = of_kind(hopper, kind)
    assert these and all(hopper.examine(one, (None,)).found for one in these[:3])


def test_fences_of_products_are_missed_but_where_a_product_in_flight_has_one(hopper):
    # The second of two products in flight: since the fence before the first nothing but products has touched its registers.
    found = {one.line: bool(hopper.examine(one, (None,)).found) for one in of_kind(hopper, "wgmma.fence dropped")}
    assert found == {line: not is_second(hopper.text.splitlines(), line) for line in found}
    assert set(found.values()) == {True, False}


def is_second(lines: list[str], line: int) -> bool:
    """Whether the fence of a line (from 1) comes after a product was begun that is not waited for before."""
    before = (text.strip() for text in reversed(lines[: line - 1]))
    last = next((text for text in before if text.startswith(("wgmma.commit_group", "wgmma.wait_group"))), "")
    return last.startswith("wgmma.commit_group")
