"""mbarriers: arrivals, bytes, phases, and what goes wrong with them."""

import numpy as np
import pytest

from tests.emulator.snippet import fault, run

SHARED = ".extern .shared .align 16 .b8 smem[];"
OPTIONS = {"declarations": SHARED, "shared_bytes": 64}
START = """
    mov.b32 %r1, smem;
    mov.u32 %r0, %tid.x;
    setp.ne.b32 %p1, %r0, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r1], {count};
READY: bar.sync 0;
"""
WAIT = "{{ .reg .pred P; AGAIN: mbarrier.try_wait.parity.shared.b64 P, [%r1], {parity}; @P bra DONE; bra AGAIN; DONE: }}"


def test_a_fresh_barrier_has_completed_parity_one_and_not_zero():
    code = START.format(count=1) + "mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 1; selp.b32 %r2, 1, 0, %p2;"
    code += "mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0; selp.b32 %r3, 2, 0, %p2; add.s32 %r2, %r2, %r3;"
    out = np.zeros(1, np.uint32)
    run(code + "st.global.b32 [%rd0], %r2;", out, **OPTIONS).check()
    assert out[0] == 1


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_a_wait_ends_after_all_lanes_have_arrived(seed):
    code = (
        START.format(count=32)
        + """
        shr.u32 %r2, %r0, 5;
        setp.eq.b32 %p2, %r2, 1;
        @%p2 bra WAITER;
        mov.b32 %r3, 5;
        st.shared.b32 [%r1+16], %r3;
        mbarrier.arrive.shared.b64 %rd11, [%r1];
        bra END;
    WAITER: """
        + WAIT.format(parity=0)
        + """
        ld.shared.b32 %r4, [%r1+16];
        st.global.b32 [%rd0], %r4;
    END:"""
    )
    out = np.zeros(1, np.uint32)
    run(code, out, threads=64, seed=seed, **OPTIONS).check()
    assert out[0] == 5


def test_announced_bytes_hold_the_phase_open():
    code = (
        START.format(count=1)
        + """
        @%p1 bra SKIP;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 48;
    SKIP: """
        + WAIT.format(parity=0)
    )
    found = fault(code, **OPTIONS)
    assert found.kind == "deadlock"
    assert "phase 0 (parity 0), 0 of 1 arrivals pending, 48 bytes outstanding" in found.message
    assert "mbarrier +0 of CTA 0, completion of the phase of parity 0" in found.message


def test_bytes_may_be_delivered_before_they_are_announced():
    code = (
        START.format(count=1)
        + """
        @%p1 bra SKIP;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 48;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 48;
    SKIP: """
        + WAIT.format(parity=0)
    )
    assert run(code, **OPTIONS).ok


def test_more_arrivals_than_the_count_are_told():
    found = fault(START.format(count=2) + "@%p1 bra SKIP; mbarrier.arrive.shared.b64 _, [%r1], 3; SKIP:", **OPTIONS)
    assert found.kind == "barrier-over-arrival" and "2 of 2 arrivals pending" in found.message


def test_a_phase_that_ends_twice_while_a_warp_waits_is_told():
    code = (
        START.format(count=1)
        + """
        shr.u32 %r2, %r0, 5;
        setp.eq.b32 %p2, %r2, 1;
        @%p2 bra WAITER;
        @%p1 bra END;
        bar.warp.sync 1;
        mbarrier.arrive.shared.b64 _, [%r1];
        mbarrier.arrive.shared.b64 _, [%r1];
        bra END;
    WAITER: """
        + WAIT.format(parity=0)
        + "END:"
    )
    kinds = {fault.kind for seed in range(12) for fault in run(code, threads=64, seed=seed, **OPTIONS).faults}
    assert kinds == {"barrier-overrun", "deadlock"}


def test_memory_that_was_never_set_up_is_no_barrier():
    assert fault("mov.b32 %r1, smem; mbarrier.arrive.shared.b64 _, [%r1];", **OPTIONS).kind == "barrier-uninitialised"


def test_data_written_over_a_barrier_is_told():
    found = fault(START.format(count=1) + "bar.sync 0; st.shared.b32 [%r1+4], %r0;", **OPTIONS)
    assert found.kind == "barrier-overwritten" and found.text.startswith("st.shared")


def test_the_memory_of_a_barrier_is_free_after_inval():
    code = START.format(count=1) + "bar.sync 0; @%p1 bra SKIP; mbarrier.inval.shared.b64 [%r1]; st.shared.b32 [%r1+4], %r0; SKIP:"
    assert run(code, **OPTIONS).ok


def test_a_failed_try_lets_the_program_go_on():
    code = (
        START.format(count=1)
        + """
        mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
        selp.b32 %r2, 1, 7, %p2;
        st.global.b32 [%rd0], %r2;
    """
    )
    out = np.zeros(1, np.uint32)
    run(code, out, **OPTIONS).check()
    assert out[0] == 7
