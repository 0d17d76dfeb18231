"""Hazards: each is told where one synchronisation is missing, and nothing is told where it is there."""

import numpy as np
import pytest

from tests.emulator.snippet import run

SHARED = {"declarations": ".extern .shared .align 128 .b8 smem[];", "shared_bytes": 1024}
START = """
    mov.b32 %r1, smem;
    mov.u32 %r0, %tid.x;
    shr.u32 %r2, %r0, 5;
    setp.eq.b32 %p1, %r0, 0;
    setp.eq.b32 %p2, %r2, 0;
    shl.b32 %r3, %r0, 2;
    add.s32 %r4, %r1, %r3;
"""
SEEDS = pytest.mark.parametrize("seed", [None, 0, 1, 2])


def kinds(body: str, *arrays: np.ndarray, **options) -> set[str]:
    """Names of the faults of a body after START."""
    return {fault.kind for fault in run(START + body, *arrays, **SHARED | options).faults}


@SEEDS
def test_a_word_read_by_another_warp_without_a_barrier_is_a_race(seed):
    body = "@%p2 st.shared.b32 [%r1], %r1; BARRIER @!%p2 st.shared.b32 [%r1], %r1;"
    assert kinds(body.replace("BARRIER", ""), threads=64, seed=seed) == {"race-shared"}
    assert kinds(body.replace("BARRIER", "bar.sync 0;"), threads=64, seed=seed) == set()


@SEEDS
def test_lanes_that_write_different_values_to_one_word_are_told(seed):
    assert kinds("st.shared.b32 [%r1], %r0;", seed=seed) == {"race-lanes"}
    assert kinds("st.shared.b32 [%r1], %r1; bar.warp.sync -1; st.shared.b32 [%r4], %r0;", seed=seed) == set()
    out = np.zeros(32, np.uint32)
    assert kinds("st.global.b32 [%rd0], %r0;", out, seed=seed) == {"race-lanes"}
    assert kinds("red.global.add.u32 [%rd0], %r0;", out, seed=seed) == set()


def test_the_lanes_are_named():
    body = "shr.u32 %r5, %r3, 3; shl.b32 %r5, %r5, 2; add.s32 %r5, %r5, %r1; setp.lt.u32 %p4, %r0, 5; @%p4 bra END; "
    (found,) = run(START + body + "st.shared.b32 [%r5+16], %r0; END:", **SHARED).faults
    assert "lanes 6 and 7 of warp 0 of CTA 0 write different values to shared memory +28 of CTA 0 at once" in found.message


def test_a_race_names_both_sides():
    body = "@%p2 st.shared.b32 [%r1+8], %r1; @%p2 bra END; ld.shared.b32 %r9, [%r1+8]; END:"
    (found,) = run(START + body, threads=64, **SHARED).faults
    assert found.text.startswith("ld.shared") and found.warp == "warp 1 of CTA 0"
    assert "st.shared" in found.other.text and found.other.agent == "warp 0 of CTA 0"
    assert "reads shared memory +8 of CTA 0, written by the other" in found.message
    assert "against warp 0 of CTA 0\n  at PTX line" in str(found)


@SEEDS
def test_a_bulk_store_of_generic_writes_needs_a_proxy_fence(seed):
    body = """
    @!%p1 bra END;
    st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0};
    FENCE
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    END:"""
    out = np.zeros(4, np.uint32)
    assert kinds(body.replace("FENCE", ""), out, seed=seed) == {"missing-proxy-fence"}
    assert kinds(body.replace("FENCE", "fence.proxy.async.shared::cta;"), out, seed=seed) == set()


def test_the_fence_may_come_after_the_barrier_in_the_warp_that_stores():
    body = """
    @!%p2 st.shared.b32 [%r4], %r0;
    bar.sync 0;
    fence.proxy.async.shared::cta;
    @!%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1+128], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    END:"""
    assert kinds(body, np.zeros(4, np.uint32), threads=64) == set()


@SEEDS
@pytest.mark.parametrize("after", ["", "st.shared.v4.b32 [%r1], {%r3, %r3, %r3, %r3};"])
def test_the_source_of_a_bulk_store_is_kept_until_it_is_read(after, seed):
    body = f"""
    @!%p1 bra END;
    st.shared.v4.b32 [%r1], {{%r0, %r0, %r0, %r0}};
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 16;
    cp.async.bulk.commit_group;
    WAIT
    {after}
    END:"""
    out = np.zeros(4, np.uint32)
    assert "missing-wait-group" in kinds(body.replace("WAIT", ""), out)
    assert kinds(body.replace("WAIT", "cp.async.bulk.wait_group.read 0;"), out, seed=seed) == set()


TENSOR = """
    setp.eq.b32 %p3, %r2, 4;
    @!%p2 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    READY: bar.sync 0;
    ld.shared.b32 %r5, [%r1];
    @!%p2 bra FILLED;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r0};
    tcgen05.wait::st.sync.aligned;
    FILLED:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    BODY
    tcgen05.wait::ld.sync.aligned;
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    @!%p2 bra FREED;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32;
    FREED:
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5];"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r0};"
HAND_OVER = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"


def tensor(first: str, between: str, second: str, **options) -> set[str]:
    """Warp 0 does the first, warp 4, which reaches the same lanes, the second."""
    body = f"@!%p2 bra A; {first} A: {between} @!%p3 bra B; {second} B:"
    return kinds(TENSOR.replace("BODY", body), threads=160, **options)


def test_a_slot_is_handed_over_after_wait_ld():
    wait = "tcgen05.wait::ld.sync.aligned;"
    assert tensor(LOAD, HAND_OVER, STORE) == {"missing-wait-ld"}
    assert tensor(LOAD + wait, HAND_OVER, STORE) == set()


def test_a_slot_is_published_after_wait_st():
    wait = "tcgen05.wait::st.sync.aligned;"
    assert tensor(STORE, HAND_OVER, LOAD) == {"missing-wait-st"}
    assert tensor(STORE + wait, HAND_OVER, LOAD) == set()


@SEEDS
def test_tensor_memory_without_a_barrier_is_a_race(seed):
    wait = "tcgen05.wait::st.sync.aligned;"
    assert tensor(STORE + wait, "", LOAD, seed=seed) == {"race-tensor"}


def test_tensor_fences_are_asked_for_by_name_only():
    first = STORE + "tcgen05.wait::st.sync.aligned;"
    assert tensor(first, "bar.sync 0;", LOAD) == set()
    assert tensor(first, "bar.sync 0;", LOAD, checks="tensor-fences") == {"missing-tensor-fence"}
    assert tensor(first, HAND_OVER, LOAD, checks="tensor-fences") == set()


def test_columns_are_given_back_after_their_last_use():
    body = TENSOR.replace("BODY", f"@%p2 bra B; @!%p3 bra B; {LOAD} tcgen05.wait::ld.sync.aligned; B:")
    early = "".join(body.rsplit("bar.sync 0;", 1))
    assert kinds(body, threads=160) == set()
    assert kinds(early, threads=160) == {"race-tensor"}


MBARRIER = """
    @%p1 mbarrier.init.shared.b64 [%r1], COUNT;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
WAIT = "AGAIN: mbarrier.try_wait.parity.shared.b64 %p5, [%r1], 0; @!%p5 bra AGAIN;"


@SEEDS
def test_an_arrival_orders_what_its_waiter_reads(seed):
    body = "@!%p2 bra W; st.shared.b32 [%r4+64], %r0; ARRIVE bra END; W:" + WAIT + "ld.shared.b32 %r9, [%r4+-64]; END:"
    arrive = "mbarrier.arrive.shared.b64 _, [%r1];"
    assert kinds(MBARRIER.replace("COUNT", "32") + body.replace("ARRIVE", arrive), threads=64, seed=seed) == set()


def test_lanes_meet_before_one_of_them_arrives_for_all():
    body = "@!%p2 bra W; st.shared.b32 [%r4+64], %r0; SYNC @!%p1 bra END; mbarrier.arrive.shared.b64 _, [%r1]; bra END; W:"
    body = MBARRIER.replace("COUNT", "1") + body + WAIT + "ld.shared.b32 %r9, [%r4+-64]; END:"
    assert kinds(body.replace("SYNC", ""), threads=64) == set()
    assert kinds(body.replace("SYNC", ""), threads=64, checks="warp-sync") == {"race-shared"}
    assert kinds(body.replace("SYNC", "bar.warp.sync -1;"), threads=64, checks="warp-sync") == set()


def test_a_barrier_is_used_after_its_set_up_is_visible():
    body = "@%p1 mbarrier.init.shared.b64 [%r1], 32; FENCE BARRIER @%p2 bra END; mbarrier.arrive.shared.b64 _, [%r1]; END:"
    ready = "fence.mbarrier_init.release.cluster;"
    assert kinds(body.replace("BARRIER", "").replace("FENCE", ready), threads=64) == {"race-barrier"}
    assert kinds(body.replace("BARRIER", "bar.sync 0;").replace("FENCE", ready), threads=64) == set()


def test_units_see_a_barrier_after_a_fence():
    body = """
    @!%p1 bra END;
    mbarrier.init.shared.b64 [%r1], 1;
    FENCE
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1+128], [%rd0], 16, [%r1];
    END:"""
    array = np.zeros(4, np.uint32)
    assert kinds(body.replace("FENCE", ""), array) == {"missing-init-fence"}
    assert kinds(body.replace("FENCE", "fence.mbarrier_init.release.cluster;"), array) == set()


def test_two_ctas_that_write_one_word_race_unless_by_atomics():
    assert kinds("@%p1 st.global.b32 [%rd0], %r0;", np.zeros(1, np.uint32), grid=(2,)) == {"race-global"}
    assert kinds("red.global.add.u32 [%rd0], 1;", np.zeros(1, np.uint32), grid=(2,)) == set()


@pytest.mark.parametrize(
    ("store", "load", "found"),
    [
        ("st.release.gpu.global", "ld.acquire.gpu.global", set()),
        ("st.relaxed.gpu.global", "ld.acquire.gpu.global", {"race-global"}),
        ("fence.acq_rel.gpu; st.relaxed.gpu.global", "ld.acquire.gpu.global", set()),
        ("st.release.gpu.global", "ld.relaxed.gpu.global", {"race-global"}),
        ("st.release.cta.global", "ld.acquire.gpu.global", {"race-global"}),
        ("st.release.gpu.global", "ld.acquire.cta.global", {"race-global"}),
        ("st.release.cluster.global", "ld.acquire.sys.global", {"race-global"}),
        ("st.release.sys.global", "ld.acquire.gpu.global", set()),
        ("membar.gl; st.volatile.global", "ld.acquire.gpu.global", set()),
        ("membar.cta; st.volatile.global", "ld.acquire.gpu.global", {"race-global"}),
        ("fence.acq_rel.gpu; fence.acq_rel.cta; st.relaxed.gpu.global", "ld.acquire.gpu.global", set()),
    ],
)
def test_a_flag_orders_two_ctas(store, load, found):
    assert of_flag(store, load, "", grid=(2,)) == found


@pytest.mark.parametrize(
    ("store", "fence", "found"),
    [
        ("st.release.cluster.global", "fence.acq_rel.cluster;", set()),
        ("st.release.cluster.global", "fence.acq_rel.cta;", {"race-global"}),
        ("st.release.cta.global", "fence.acq_rel.cluster;", {"race-global"}),
        ("st.release.gpu.global", "fence.sc.gpu;", set()),
    ],
)
def test_the_scope_of_a_flag_and_a_fence_reaches_the_other_cta_of_a_cluster(store, fence, found):
    assert of_flag(store, "ld.relaxed.cluster.global", fence, grid=(2,), cluster=(2,)) == found


def of_flag(store, load, fence, **options):
    """Faults where the first CTA writes a word and sets a flag, and the second waits for the flag and reads the word."""
    body = f"""
    @!%p1 bra END;
    mov.u32 %r5, %ctaid.x;
    setp.eq.b32 %p3, %r5, 0;
    @!%p3 bra READER;
    st.global.b32 [%rd0], %r0;
    mov.b32 %r6, 1;
    {store}.b32 [%rd0+4], %r6;
    bra END;
    READER: {load}.b32 %r7, [%rd0+4];
    setp.eq.b32 %p4, %r7, 0;
    @%p4 bra READER;
    {fence}
    ld.global.b32 %r8, [%rd0];
    END:"""
    return kinds(body, np.zeros(2, np.uint32), **options)


def test_what_ends_a_run_is_told_however_much_was_told_before():
    body = "".join(f"bra L{n}; L{n}: st.shared.b32 [%r1+{4 * n}], %r0; bar.warp.sync -1;" for n in range(30))
    (*others, last) = run(START + body + "trap;", **SHARED).faults
    assert {fault.kind for fault in others} == {"race-lanes"} and len(others) == 19
    assert last.kind == "trap"


def test_a_load_is_waited_for_before_its_use_in_another_block():
    branch, use, wait = "@%p1 bra NEXT; NEXT:", "add.u32 %r7, %r6, %r6;", "tcgen05.wait::ld.sync.aligned;"
    first = STORE + "tcgen05.wait::st.sync.aligned;"
    asked = {"hazards", "wait-ld"}
    assert tensor(first + LOAD + branch + use, HAND_OVER, "", checks=asked) == {"missing-wait-ld"}
    assert tensor(first + LOAD + branch + wait + use, HAND_OVER, "", checks=asked) == set()
    assert tensor(first + LOAD + branch + "mov.b32 %r8, %r6;" + wait + use, HAND_OVER, "", checks=asked) == set()
