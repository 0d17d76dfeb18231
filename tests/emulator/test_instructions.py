"""Instructions that only some kernels use: integers, local memory, 128-bit registers, copies, atomics, launch control."""

import numpy as np
import pytest

from tests.emulator.snippet import lanes, run

RNG = np.random.default_rng(8)
A, B, C = (RNG.integers(0, 2**32, 32, dtype=np.uint32) for _ in range(3))
ROOM = ".shared .align 128 .b8 room[4096];"


def signed(x, bits=32):
    """A number of so many bits, as signed."""
    x = int(x) & (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def ints(values):
    return np.array([int(value) % (1 << 32) for value in values], np.uint32)


def nth_set(mask: int, base: int, offset: int) -> int:
    """fns by listing the set bits."""
    found = [bit for bit in range(32) if mask >> bit & 1]
    if offset == 0:
        return base if base in found else 0xFFFFFFFF
    found = [bit for bit in found if bit >= base] if offset > 0 else [bit for bit in found[::-1] if bit <= base]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("add.sat.s32 %r100, %r1, %r2;", [max(-(2**31), min(2**31 - 1, signed(a) + signed(b))) for a, b in zip(A, B)]),
        ("mul24.hi.s32 %r100, %r1, %r2;", [signed(a, 24) * signed(b, 24) >> 16 for a, b in zip(A, B)]),
        ("mad24.lo.u32 %r100, %r1, %r2, %r3;", [(int(a) % 2**24) * (int(b) % 2**24) + int(c) for a, b, c in zip(A, B, C)]),
        ("sad.u32 %r100, %r1, %r2, %r3;", [int(c) + abs(int(a) - int(b)) for a, b, c in zip(A, B, C)]),
        ("shr.u32 %r1, %r1, 9; bfind.u32 %r100, %r1;", [(int(a) >> 9).bit_length() - 1 for a in A]),
        ("bfind.shiftamt.s32 %r100, %r1;", [32 - (signed(a) if signed(a) >= 0 else ~signed(a)).bit_length() for a in A]),
        ("fns.b32 %r100, %r1, 5, 3;", [nth_set(int(a), 5, 3) for a in A]),
        ("fns.b32 %r100, %r1, 20, -4;", [nth_set(int(a), 20, -4) for a in A]),
        ("szext.clamp.s32 %r100, %r1, 7;", [signed(a, 7) for a in A]),
        ("bmsk.clamp.b32 %r100, 3, 6;", 32 * [0b111111000]),
        ("dp4a.s32.u32 %r100, %r1, %r2, %r3;",
         [sum(signed(int(a) >> 8 * n, 8) * (int(b) >> 8 * n & 255) for n in range(4)) + int(c) for a, b, c in zip(A, B, C)]),
        ("prmt.b32.f4e %r100, %r1, %r2, 1;", [(int(b) << 32 | int(a)) >> 8 for a, b in zip(A, B)]),
        ("prmt.b32.rc16 %r100, %r1, %r2, 1;", [(int(a) >> 16) * 0x10001 for a in A]),
        ("add.cc.u32 %r9, %r1, %r2; addc.u32 %r100, %r3, 5;", [int(c) + 5 + (int(a) + int(b) >> 32) for a, b, c in zip(A, B, C)]),
        ("slct.u32.s32 %r100, %r1, %r2, %r3;", [a if signed(c) >= 0 else b for a, b, c in zip(A, B, C)]),
        ("set.lt.u32.u32 %r100, %r1, %r2;", [0xFFFFFFFF if a < b else 0 for a, b in zip(A, B)]),
        ("griddepcontrol.wait; griddepcontrol.launch_dependents; mov.b32 %r100, %r1;", list(A)),
    ],
)  # fmt: skip
def test_rare_integer_instructions_equal_unbounded_integers(code, expected):
    assert (lanes(code, A, B, C) == ints(expected)).all()


def test_local_memory_belongs_to_a_lane():
    body = """
    .local .align 8 .b8 depot[16];
    mov.b64 %rd10, depot;
    cvta.local.u64 %rd11, %rd10;
    mov.u32 %r0, %laneid;
    st.local.b32 [%rd10+4], %r0;
    add.s32 %r1, %r0, 100;
    st.b32 [%rd11+8], %r1;
    ld.b32 %r2, [%rd11+4];
    ld.local.b32 %r3, [%rd10+8];
    add.s32 %r4, %r2, %r3;
    mul.wide.u32 %rd9, %r0, 4;
    add.s64 %rd8, %rd0, %rd9;
    st.global.b32 [%rd8], %r4;
    """
    out = np.zeros(32, np.uint32)
    run(body, out).check()
    assert (out == 2 * np.arange(32) + 100).all()


def test_local_memory_is_that_of_the_lane_also_when_some_lanes_read_several_words():
    body = """
    .local .align 8 .b8 depot[16];
    mov.b64 %rd10, depot;
    mov.u32 %r0, %laneid;
    mul.wide.u32 %rd9, %r0, 4;
    add.s64 %rd8, %rd0, %rd9;
    st.local.b32 [%rd10+4], %r0;
    add.s32 %r1, %r0, 100;
    st.local.b32 [%rd10+8], %r1;
    setp.lt.u32 %p1, %r0, 20;
    @%p1 bra DONE;
    ld.local.b32 %r2, [%rd10+4];
    ld.local.b32 %r3, [%rd10+8];
    add.s32 %r4, %r2, %r3;
    st.global.b32 [%rd8], %r4;
    DONE:
    """
    out = np.zeros(32, np.uint32)
    run(body, out).check()
    assert (out == np.where(np.arange(32) < 20, 0, 2 * np.arange(32) + 100)).all()


def test_a_128_bit_register_keeps_its_halves():
    body = """
    .reg .b128 %q<2>;
    mov.u32 %r0, %laneid;
    mul.wide.u32 %rd9, %r0, 16;
    add.s64 %rd8, %rd0, %rd9;
    add.s64 %rd7, %rd1, %rd9;
    ld.global.b128 %q0, [%rd8];
    mov.b128 {%rd10, %rd11}, %q0;
    mov.b128 %q1, {%rd11, %rd10};
    st.global.b128 [%rd7], %q1;
    """
    given = RNG.integers(0, 2**63, (32, 2), dtype=np.uint64)
    out = np.zeros_like(given)
    run(body, given, out).check()
    assert (out == given[:, ::-1]).all()


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_copies_arrive_by_the_wait_or_the_barrier(seed):
    body = """
    mov.b32 %r1, room;
    mov.u32 %r0, %laneid;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], 32;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync 0xffffffff;
    shl.b32 %r2, %r0, 4;
    add.s32 %r3, %r1, %r2;
    cvt.u64.u32 %rd9, %r2;
    add.s64 %rd8, %rd0, %rd9;
    cp.async.cg.shared.global [%r3+128], [%rd8], 16;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r3+1024], [%rd8], 16, 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];
    cp.async.wait_group 0;
    ld.shared.b32 %r4, [%r3+132];
    AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;
    @!%p2 bra AGAIN;
    ld.shared.v2.b32 {%r5, %r6}, [%r3+1024];
    add.s64 %rd7, %rd1, %rd9;
    st.global.v4.b32 [%rd7], {%r4, %r5, %r6, %r0};
    """
    given = RNG.integers(1, 2**32, (32, 4), dtype=np.uint32)
    out = np.zeros_like(given)
    run(body, given, out, declarations=ROOM, seed=seed).check()
    assert (out[:, 0] == given[:, 1]).all() and (out[:, 1] == given[:, 0]).all() and (out[:, 2] == 0).all()


def test_a_group_that_is_not_waited_for_may_be_late():
    body = """
    mov.b32 %r1, room;
    mov.u32 %r0, %laneid;
    shl.b32 %r2, %r0, 4;
    add.s32 %r3, %r1, %r2;
    cvt.u64.u32 %rd9, %r2;
    add.s64 %rd8, %rd0, %rd9;
    mov.b32 %r5, 7;
    st.shared.b32 [%r3], %r5;
    cp.async.cg.shared.global [%r3], [%rd8], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    ld.shared.b32 %r4, [%r3];
    cp.async.wait_all;
    add.s64 %rd7, %rd1, %rd9;
    st.global.b32 [%rd7], %r4;
    """
    seen = set()
    for seed in range(12):
        out = np.zeros((32, 4), np.uint32)
        run(body, np.full((32, 4), 9, np.uint32), out, declarations=ROOM, seed=seed, checks="none").check()
        seen |= set(out[:, 0].tolist())
    assert seen == {7, 9}


@pytest.mark.parametrize("space", ["global", "shared"])
def test_lanes_that_meet_at_one_address_all_count(space):
    place = "[%rd0]" if space == "global" else "[room]"
    body = f"""
    mov.u32 %r0, %laneid;
    mov.b32 %r9, 0;
    st.shared.b32 [room], %r9;
    bar.warp.sync 0xffffffff;
    atom.{space}.add.u32 %r2, {place}, 3;
    red.{space}.max.u32 {place}, %r0;
    ld.{space}.b32 %r3, {place};
    mul.wide.u32 %rd9, %r0, 8;
    add.s64 %rd8, %rd1, %rd9;
    st.global.v2.b32 [%rd8], {{%r2, %r3}};
    """
    out = np.zeros((32, 2), np.uint32)
    run(body, np.zeros(4, np.uint32), out, declarations=ROOM).check()
    assert (np.sort(out[:, 0]) == 3 * np.arange(32)).all() and (out[:, 1] == 96).all()


def test_a_lock_by_cas_keeps_ctas_apart():
    body = """
    mov.u32 %r0, %laneid;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra DONE;
    TAKE: atom.acquire.gpu.global.cas.b32 %r1, [%rd0], 0, 1;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra TAKE;
    ld.global.b32 %r2, [%rd0+4];
    add.s32 %r2, %r2, 1;
    st.global.b32 [%rd0+4], %r2;
    fence.acq_rel.gpu;
    atom.release.gpu.global.exch.b32 %r3, [%rd0], 0;
    DONE:
    """
    for seed in (None, 1, 2):
        memory = np.zeros(4, np.uint32)
        run(body, memory, grid=(9,), seed=seed, checks="none").check()
        assert memory.tolist() == [0, 9, 0, 0]


CANCEL = """
    mov.b32 %r1, room;
    mov.u32 %r0, %laneid;
    setp.ne.u32 %p1, %r0, 0;
    mov.b32 %r9, 0;
    mov.u32 %r2, %ctaid.x;
    @%p1 bra DONE;
    mbarrier.init.shared.b64 [%r1], 1;
    NEXT:
    mul.wide.u32 %rd9, %r2, 4;
    add.s64 %rd8, %rd0, %rd9;
    atom.global.add.u32 %r3, [%rd8], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1+16], [%r1];
    AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], %r9;
    @!%p2 bra AGAIN;
    xor.b32 %r9, %r9, 1;
    ld.shared.b128 %q0, [%r1+16];
    fence.proxy.async.shared::cta;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    @!%p3 bra DONE;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2, %r4, %r5, _}, %q0;
    bra NEXT;
    DONE:
"""


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_every_cta_of_a_large_grid_is_run_or_taken_over_once(seed):
    done = np.zeros(160, np.uint32)
    run(".reg .b128 %q<1>;" + CANCEL, done, grid=(160,), declarations=ROOM, seed=seed, checks="none").check()
    assert (done == 1).all()
