"""A synchronisation that is missing from the forward kernel is noticed, whatever the numbers say."""

import re

import pytest

from tests.emulator import our_backward
from tests.emulator.mutants import CHANGES, is_covered, mutants
from tests.emulator.mutate import Subject
from tests.emulator.our_forward import subject_of

KINDS = [change.kind for change in CHANGES]
# The first of these kinds that the sample runs; others need more seeds, or a call that takes longer.
SAMPLE = ["wait passes at once", "arrive dropped", "commit dropped", "fence.proxy.async dropped", "wait::st dropped"]


# Mutants that change nothing, by kind; docs/emulator.md has the reasons.
REDUNDANT = {
    "wait passes at once": 1,
    "tcgen05.fence::before dropped": 2,
}


@pytest.fixture(scope="module")
def causal() -> Subject:
    return subject_of("causal")


def test_the_kernel_as_it_is_gives_no_cause(causal):
    for call in range(len(causal.calls)):
        for seed in (None, 0, 1):
            assert not causal.run(call, seed, None)[0].faults


def test_mutants_of_every_kind_exist(causal):
    assert set(KINDS) == {mutant.kind for mutant in mutants(causal.text)}


def test_a_fence_is_covered_by_another_only_if_tensor_memory_is_not_touched_between():
    text = "tcgen05.fence::after_thread_sync;\nmov.b32 %r1, 0;\ntcgen05.fence::after_thread_sync;\ntcgen05.ld.x;"
    assert [is_covered(text, one) for one in mutants(text)] == [True, False]
    text = "tcgen05.st.x;\ntcgen05.fence::before_thread_sync;\ntcgen05.ld.x;\ntcgen05.fence::before_thread_sync;"
    text += "\nbra A;\ntcgen05.fence::before_thread_sync;"
    assert [is_covered(text, one) for one in mutants(text)] == [False, False, True]


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_missing_synchronisation_is_noticed(causal, kind):
    mutant = next(one for one in mutants(causal.text) if one.kind == kind and one.line in causal.lines)
    assert causal.examine(mutant, (None,)).found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_mutant_is_noticed_but_for_those_explained(causal, kind):
    verdicts = causal.verdicts(f"^{re.escape(kind)} line")
    silent = [str(one) for one in verdicts if not one.found and not is_covered(causal.text, one.mutant)]
    assert len(silent) <= REDUNDANT.get(kind, 0), silent


@pytest.fixture(scope="module")
def backward() -> Subject:
    return our_backward.subject_of("causal")


@pytest.mark.slow
def test_the_backward_as_it_is_gives_no_cause_and_all_its_synchronisation_is_run(backward):
    assert not any(report.faults for report, _ in backward.whole)
    assert all(mutant.line in backward.lines for mutant in mutants(backward.text))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLE)
def test_a_synchronisation_that_the_backward_lacks_is_noticed(backward, kind):
    first = next(one for one in mutants(backward.text) if one.kind == kind)
    assert backward.examine(first, (None,)).found
