"""Control flow, memories, barriers and warp operations."""

import numpy as np
import pytest

from tests.emulator.snippet import fault, lanes, run

LANE = np.arange(32, dtype=np.uint32)
SHARED = ".extern .shared .align 16 .b8 smem[];"
TO_OUT = "mov.u32 %r0, %tid.x; mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9;"


def output(body: str, threads: int = 32, **options) -> np.ndarray:
    """What threads store to [%rd10], a word each."""
    out = np.zeros(threads, np.uint32)
    run(TO_OUT + body, out, threads=threads, **options).check()
    return out


def test_diverged_lanes_meet_again():
    code = """
        and.b32 %r1, %r0, 3;
        mov.b32 %r2, 0;
        setp.eq.b32 %p1, %r1, 0;
        @%p1 bra ZERO;
        setp.eq.b32 %p2, %r1, 1;
        @%p2 bra ONE;
        add.s32 %r2, %r2, 30;
        bra JOIN;
    ZERO: add.s32 %r2, %r2, 10; bra JOIN;
    ONE: add.s32 %r2, %r2, 20;
    JOIN: vote.sync.ballot.b32 %r3, 1, -1;
        popc.b32 %r3, %r3;
        add.s32 %r2, %r2, %r3;
        st.global.b32 [%rd10], %r2;
    """
    assert (output(code) == 32 + np.array([10, 20, 30, 30])[LANE % 4]).all()


def test_a_loop_runs_as_often_as_each_lane_asks():
    code = """
        mov.b32 %r1, 0;
        mov.b32 %r2, 0;
    LOOP: setp.ge.u32 %p1, %r1, %r0;
        @%p1 bra DONE;
        add.s32 %r1, %r1, 1;
        add.s32 %r2, %r2, %r1;
        bra LOOP;
    DONE: st.global.b32 [%rd10], %r2;
    """
    assert (output(code) == LANE * (LANE + 1) // 2).all()


def test_lanes_that_exit_early_store_nothing_more():
    code = "setp.lt.u32 %p1, %r0, 7; @%p1 ret; mov.b32 %r1, 9; st.global.b32 [%rd10], %r1;"
    assert (output(code) == np.where(LANE < 7, 0, 9)).all()


def test_values_pass_through_shared_memory_at_a_barrier():
    code = """
        mov.b32 %r1, smem;
        shl.b32 %r2, %r0, 2;
        add.s32 %r3, %r1, %r2;
        st.shared.b32 [%r3], %r0;
        bar.sync 0;
        sub.s32 %r4, 252, %r2;
        add.s32 %r4, %r1, %r4;
        ld.shared.b32 %r5, [%r4];
        st.global.b32 [%rd10], %r5;
    """
    for seed in (None, 0, 1):
        assert (output(code, 64, declarations=SHARED, shared_bytes=256, seed=seed) == np.arange(64)[::-1]).all()


def test_a_barrier_for_some_warps_counts_arrivals_that_do_not_wait():
    code = """
        shr.u32 %r1, %r0, 5;
        mov.b32 %r6, smem;
        setp.eq.b32 %p1, %r1, 0;
        @%p1 bra PRODUCE;
        bar.sync 3, 64;
        ld.shared.b32 %r5, [%r6];
        st.global.b32 [%rd10], %r5;
        bra DONE;
    PRODUCE: mov.b32 %r5, 77;
        st.shared.b32 [%r6], %r5;
        bar.arrive 3, 64;
    DONE:
    """
    for seed in (None, 0, 1, 2):
        assert (output(code, 64, declarations=SHARED, shared_bytes=16, seed=seed)[32:] == 77).all()


def test_vectors_are_loaded_and_stored_in_order():
    code = """
        mov.b32 %r1, smem;
        shl.b32 %r2, %r0, 4;
        add.s32 %r1, %r1, %r2;
        mov.b32 %r3, 3;
        st.shared.v4.b32 [%r1], {%r0, %r2, %r3, %r0};
        ld.shared.v2.b32 {%r4, %r5}, [%r1+8];
        ld.shared.b8 %r6, [%r1+4];
        add.s32 %r7, %r4, %r5;
        add.s32 %r7, %r7, %r6;
        st.global.b32 [%rd10], %r7;
    """
    expected = 3 + LANE + (16 * LANE & 0xFF)
    assert (output(code, declarations=SHARED, shared_bytes=512) == expected).all()


def test_local_memory_is_each_lanes_own():
    code = """
        .local .align 8 .b8 depot[16];
        mov.b64 %rd11, depot;
        cvta.local.u64 %rd12, %rd11;
        st.b32 [%rd12+4], %r0;
        ld.local.b32 %r1, [%rd11+4];
        st.global.b32 [%rd10], %r1;
    """
    assert (output(code) == LANE).all()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("shfl.sync.idx.b32 %r100, %r1, 5, 31, -1;", np.full(32, 50)),
        ("shfl.sync.down.b32 %r100, %r1, 1, 31, -1;", 10 * np.minimum(LANE + 1, 31)),
        ("shfl.sync.up.b32 %r100, %r1, 2, 0, -1;", 10 * np.where(LANE >= 2, LANE - 2, LANE)),
        ("shfl.sync.bfly.b32 %r100, %r1, 3, 31, -1;", 10 * (LANE ^ 3)),
        ("redux.sync.add.s32 %r100, %r1, -1;", np.full(32, 4960)),
        ("redux.sync.max.u32 %r100, %r1, -1;", np.full(32, 310)),
        ("elect.sync %r100|%p1, -1;", np.zeros(32)),
        ("elect.sync %r2|%p1, -1; selp.b32 %r100, 1, 0, %p1;", LANE == 0),
        ("setp.gt.u32 %p1, %r1, 300; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r100, 1, 0, %p2;", np.ones(32)),
        ("setp.gt.u32 %p1, %r1, 300; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r100, 1, 0, %p2;", np.zeros(32)),
    ],
)
def test_lanes_exchange_values(operation, expected):
    assert (lanes(operation, 10 * LANE) == expected).all()


def test_an_address_outside_every_tensor_is_told_with_its_line():
    found = fault("mov.b32 %r1, 0;\n    st.global.b32 [%rd0+128], %r1;", np.zeros(32, np.uint32))
    assert found.kind == "out-of-bounds" and found.text == "st.global.b32 [%rd0+128], %r1"
    assert "p0 (128 bytes), 128 bytes from its start" in found.message


def test_a_misaligned_access_is_told():
    assert fault("ld.global.b32 %r1, [%rd0+2];", np.zeros(32, np.uint32)).kind == "misaligned"


def test_shared_memory_ends_where_the_launch_says():
    code = "mov.b32 %r1, smem; st.shared.b32 [%r1+64], %r1;"
    found = fault(code, declarations=SHARED, shared_bytes=64)
    assert found.kind == "out-of-bounds" and "ends at +64; access at +64" in found.message


def test_shared_memory_is_not_read_before_it_is_written():
    code = "mov.b32 %r1, smem; st.shared.b8 [%r1], %r1; ld.shared.b32 %r2, [%r1];"
    found = fault(code, declarations=SHARED, shared_bytes=64)
    assert found.kind == "uninitialised-shared" and "+0" in found.message
    assert run(code, declarations=SHARED, shared_bytes=64, checks="none").ok


def test_a_register_is_not_read_before_it_is_written():
    found = fault("mov.b32 %r2, 1; add.s32 %r1, %r77, 1;")
    assert found.kind == "uninitialised-register" and "%r77" in found.message and "add.s32" in found.text


def test_a_run_goes_on_with_rubbish_in_a_register_that_is_not_written():
    report = run("add.s32 %r1, %r77, 1; add.s32 %r1, %r78, 1; mov.b32 %r2, smem; st.shared.b8 [%r2], %r1;", declarations=SHARED)
    assert [found.kind for found in report.faults] == ["uninitialised-register", "out-of-bounds"]
    assert run("add.s32 %r1, %r77, 1;", checks="none").ok


def test_copying_an_undefined_register_is_no_fault():
    assert run("mov.b32 %r1, %r77; bra A; A: mov.b32 %r2, %r1;").ok


def test_a_barrier_that_one_warp_never_reaches_is_a_deadlock_that_names_it():
    code = "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 96; A:"
    found = fault(code, threads=64)
    assert found.kind == "deadlock"
    assert "warp 1 of CTA 0 waits for named barrier 1 of CTA 0: 32 of 96 threads have arrived" in found.message


def test_registers_are_a_pool():
    wait = "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 256; @%p1 bra A; {}setmaxnreg.inc.sync.aligned.u32 160; bra B; A: {} B:"
    grows_only = fault(wait.format("", ""), threads=512)
    assert grows_only.kind == "deadlock" and "registers for setmaxnreg.inc" in grows_only.message
    for seed in (None, 0, 1):
        assert run(wait.format("", "setmaxnreg.dec.sync.aligned.u32 96;"), threads=512, seed=seed).ok


def test_a_kernel_is_launched_with_no_more_registers_than_it_asks_for():
    # ptxas: 256 threads that ask for 232 registers use 232, not 255.
    wait = "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 128; @%p1 bra A; setmaxnreg.inc.sync.aligned.u32 232; bra B;"
    assert run(wait + "A: setmaxnreg.dec.sync.aligned.u32 40; B:", threads=256).ok


def test_a_packed_register_that_nothing_writes_is_padding():
    out = np.zeros(32, np.uint8)
    body = "mov.u32 %r0, %laneid; cvt.u64.u32 %rd8, %r0; add.s64 %rd9, %rd0, %rd8; cvt.u16.u32 %h1, %r0;"
    body += "mov.b32 %r1, {%h1, %h9}; st.global.b8 [%rd9], %r1;"
    run(body, out).check()
    assert (out == np.arange(32)).all()
