"""Clusters: addresses of other CTAs, remote arrivals, copies between CTAs, multicast, and pairs that multiply together."""

import numpy as np
import pytest
from attnspec.emulator.launch import run_ptx
from attnspec.emulator.report import Report

from tests.emulator.tensor_maps import encode
from tests.emulator.test_tensor import K_MAJOR, A, B, bf16, swizzle_rows

PTX = """
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry snippet(.param .align 64 .b8 map[128], .param .u64 a, .param .u64 out)
.reqntid 128, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b32 %r<64>;
    .reg .b64 %rd<32>;
    mov.b64 %rd1, map;
    ld.param.b64 %rd2, [a];
    ld.param.b64 %rd3, [out];
    mov.b32 %r1, smem;
    mov.u32 %r0, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r3, %r2, 1;
    mapa.shared::cluster.u32 %r4, %r1, %r3;
    mov.u32 %r5, %ctaid.x;
    setp.eq.b32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
{body}
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"""
WAIT = "AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra AGAIN;"


def run(body: str, out: np.ndarray, descriptor: bytes = bytes(128), a: np.ndarray | None = None, **options) -> Report:
    """A grid of two pairs. %r1 shared memory with an mbarrier at 0, %r2 the rank, %r4 the peer's shared memory, %r5 the CTA."""
    given = out if a is None else a
    options = {"grid": (4,), "cluster": (2,), "shared_bytes": 65536 + 2048} | options
    return run_ptx(PTX.format(body=body), [descriptor, given, out], **options)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_word_and_an_arrival_reach_the_peer(seed):
    out = np.zeros(4, np.uint32)
    body = (
        """
    @!%p1 bra SKIP;
    add.s32 %r6, %r5, 100;
    st.shared::cluster.b32 [%r4+16], %r6;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
    SKIP: """
        + WAIT
        + """
    ld.shared.b32 %r7, [%r1+16];
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd3, %rd4;
    @%p1 st.global.b32 [%rd5], %r7;
    """
    )
    run(body, out, seed=seed).check()
    assert list(out) == [101, 100, 103, 102]


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_bytes_are_copied_to_the_peer_and_counted_there(seed):
    out = np.zeros(4, np.uint32)
    body = (
        """
    @!%p1 bra SKIP;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    st.shared.v4.b32 [%r1+32], {%r5, %r5, %r5, %r5};
    fence.proxy.async.shared::cta;
    add.s32 %r8, %r1, 32;
    add.s32 %r9, %r4, 64;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%r8], 16, [%r4];
    SKIP: """
        + WAIT
        + """
    ld.shared.b32 %r7, [%r1+72];
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd3, %rd4;
    @%p1 st.global.b32 [%rd5], %r7;
    """
    )
    run(body, out, seed=seed).check()
    assert list(out) == [1, 0, 3, 2]


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_multicast_box_arrives_in_every_cta_of_the_mask(seed):
    array = np.arange(4 * 64, dtype=np.uint16).reshape(4, 64)
    out = np.zeros(4, np.uint32)
    body = (
        """
    .reg .b16 %h<2>;
    @!%p1 bra SKIP;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;
    setp.ne.b32 %p3, %r2, 0;
    @%p3 bra SKIP;
    mov.b16 %h1, 3;
    add.s32 %r8, %r1, 1024;
    CAST [%r8], [%rd1, {0, 0}], [%r1], %h1;
    SKIP: """
        + WAIT
        + """
    ld.shared.b16 %r7, [%r1+1534];
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd3, %rd4;
    @%p1 st.global.b32 [%rd5], %r7;
    """
    )
    cast = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    run(body.replace("CAST", cast), out, encode(array, (64, 4)), array, seed=seed).check()
    assert list(out) == 4 * [255]


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_multicast_of_a_pair_is_counted_by_the_leader_of_each_pair(seed):
    # PTX ISA, .cta_group::2: the barrier named is an even CTA's, so of each destination's pair the even one hears.
    array = np.arange(4 * 64, dtype=np.uint16).reshape(4, 64)
    out = np.zeros(4, np.uint32)
    body = (
        """
    .reg .b16 %h<2>;
    and.b32 %r10, %r2, 1;
    setp.eq.b32 %p3, %r10, 0;
    and.pred %p4, %p1, %p3;
    @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 1024;
    setp.eq.and.b32 %p5, %r2, 0, %p1;
    @!%p5 bra ISSUED;
    mov.b16 %h1, 15;
    add.s32 %r8, %r1, 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2"""
        + """ [%r8], [%rd1, {0, 0}], [%r1], %h1;
    ISSUED:
    @!%p3 bra ODD;
    """
        + WAIT
        + """
    ODD:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ld.shared.b32 %r7, [%r1+1028];
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd3, %rd4;
    @%p1 st.global.b32 [%rd5], %r7;
    """
    )
    run(body, out, encode(array, (64, 4)), array, cluster=(4,), seed=seed).check()
    assert (out == 2 | 3 << 16).all()


def test_waiting_on_the_peers_barrier_is_told():
    report = run("mbarrier.test_wait.parity.shared.b64 %p2, [%r4], 0;", np.zeros(4, np.uint32))
    assert report.faults[0].kind == "wrong-space"


def test_memory_of_a_cta_that_has_exited_is_not_touched():
    body = (
        "setp.eq.b32 %p3, %r2, 1; @%p3 ret; barrier.cluster.arrive; barrier.cluster.wait; st.shared::cluster.b32 [%r4+16], %r0;"
    )
    found = run(body, np.zeros(4, np.uint32)).faults[0]
    assert found.kind == "exited-cta" and "whose warps have all exited" in found.message


PAIR = """
    shr.u32 %r10, %r0, 5;
    setp.eq.b32 %p4, %r10, 0;
    add.s32 %r11, %r1, 16;
    add.s32 %r12, %r1, 8;
    @%p1 mbarrier.init.shared.b64 [%r12], 1;
    fence.mbarrier_init.release.cluster;
    @!%p4 bra READY;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r11], 32;
READY:
    @!%p1 bra LOADED;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {both};
    add.s32 %r13, %r1, 1024;
    add.s32 %r14, %r13, {a_bytes};
    mul.wide.u32 %rd4, %r2, {both};
    add.s64 %rd5, %rd2, %rd4;
    add.s64 %rd6, %rd5, {a_bytes};
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r13], [%rd5], {a_bytes}, [%r1];
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r14], [%rd6], {b_bytes}, [%r1];
LOADED:
    AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra AGAIN;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ld.shared.b32 %r6, [%r11];
    setp.eq.b32 %p5, %r2, 0;
    and.pred %p5, %p5, %p1;
    @!%p5 bra MULTIPLIED;
    shr.u32 %r23, %r13, 4;
    shr.u32 %r24, %r14, 4;
    {steps}
    mov.b16 %h1, 3;
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r12], %h1;
MULTIPLIED:
    DONE: mbarrier.try_wait.parity.shared.b64 %p2, [%r12], 0; @!%p2 bra DONE;
    shl.b32 %r7, %r10, 21;
    add.s32 %r8, %r6, %r7;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{registers}}}, [%r8];
    tcgen05.wait::ld.sync.aligned;
    mad.lo.s32 %r9, %r2, 128, %r0;
    mul.wide.u32 %rd4, %r9, 64;
    add.s64 %rd5, %rd3, %rd4;
    {stores}
    bar.sync 0;
    @!%p4 bra FREED;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r6, 32;
FREED:
"""


def pair_multiply(rows: int, columns: int, shape: int) -> np.ndarray:
    """What both CTAs' tensor memory holds, (2, 128, 16), after a pair multiplied `rows` rows of A and `columns` of B each."""
    a = [swizzle_rows(bf16(A2[rank * rows : (rank + 1) * rows])) for rank in (0, 1)]
    b = [swizzle_rows(bf16(B2[rank * columns : (rank + 1) * columns])) for rank in (0, 1)]
    given = np.concatenate([part.ravel() for rank in (0, 1) for part in (a[rank], b[rank])])
    steps = []
    for k in range(4):
        steps.append(f"add.s32 %r25, %r23, {2 * k}; add.s32 %r26, %r24, {2 * k};")
        steps.append(f"mov.b64 %rd6, {{%r25, {K_MAJOR}}}; mov.b64 %rd7, {{%r26, {K_MAJOR}}};")
        steps.append(f"tcgen05.mma.cta_group::2.kind::f16 [%r6], %rd6, %rd7, {shape}, {int(k > 0)};")
    names = [f"%r{30 + number}" for number in range(16)]
    body = ".reg .b16 %h<2>;" + PAIR.format(
        both=a[0].nbytes + b[0].nbytes,
        a_bytes=a[0].nbytes,
        b_bytes=b[0].nbytes,
        steps="\n".join(steps),
        registers=", ".join(names),
        stores="\n".join(f"st.global.b32 [%rd5+{4 * number}], {name};" for number, name in enumerate(names)),
    )
    out = np.zeros((2, 128, 16), np.float32)
    run(body, out, a=given, grid=(2,)).check()
    return out


A2 = np.concatenate([A, np.roll(A, 3, 1)])
B2 = np.concatenate([B, np.roll(B, 5, 1)])


def test_a_pair_multiplies_256_rows_each_cta_its_half():
    got = pair_multiply(128, 8, 16 << 24 | 2 << 17 | 0x490)
    assert (got.reshape(256, 16) == A2 @ B2[:16].T).all()


def test_a_pair_multiplies_128_rows_with_the_columns_split_over_lanes():
    got = pair_multiply(64, 16, 8 << 24 | 4 << 17 | 0x490)
    product = A2[:128] @ B2[:32].T
    for rank in (0, 1):
        mine = product[64 * rank : 64 * rank + 64]
        assert (got[rank, :64] == mine[:, :16]).all() and (got[rank, 64:] == mine[:, 16:]).all()
