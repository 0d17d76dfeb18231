"""Bulk copies: boxes with swizzles and outside parts, stores, reductions, groups."""

import numpy as np
import pytest
from attnspec.emulator.launch import run_ptx
from attnspec.emulator.report import Report

from tests.emulator.tensor_maps import encode

PTX = """
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry snippet(.param .align 64 .b8 map[128], .param .u64 array, .param .u64 out)
.reqntid 32, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<32>;
    mov.b64 %rd1, map;
    ld.param.b64 %rd2, [out];
    ld.param.b64 %rd3, [array];
    mov.b32 %r1, smem;
    add.s32 %r2, %r1, {room};
    elect.sync %r3|%p1, -1;
    @!%p1 bra DONE;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
{body}
DONE:
    ret;
}}
"""
WAIT = "{ AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @%p2 bra OVER; bra AGAIN; OVER: }"


def run(body: str, descriptor: bytes, array: np.ndarray, out: np.ndarray, room: int = 16384, **options) -> Report:
    """One elected lane runs the body: %rd1 the descriptor, %rd2 out, %rd3 the array, %r1 shared memory, %r2 an mbarrier."""
    return run_ptx(PTX.format(room=room, body=body), [descriptor, array, out], shared_bytes=room + 16, **options)


def load(array: np.ndarray, box: tuple[int, ...], corner: tuple[int, ...], swizzle: int = 0, **options) -> np.ndarray:
    """The bytes of shared memory that a box load fills, carried out by a bulk store."""
    count = int(np.prod(box)) * array.itemsize
    out = np.zeros(count, np.uint8)
    coordinates = ", ".join(map(str, corner))
    body = f"""
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {count};
    cp.async.bulk.tensor.{len(box)}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {{{coordinates}}}], [%r2];
    {WAIT}
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {count};
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    """
    run(body, encode(array, box, swizzle), array, out, **options).check()
    return out


ARRAY = np.arange(3 * 20 * 64, dtype=np.uint16).reshape(3, 20, 64)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_box_is_laid_down_row_by_row(seed):
    got = load(ARRAY, (64, 8, 1), (0, 4, 2), seed=seed).view(np.uint16).reshape(8, 64)
    assert (got == ARRAY[2, 4:12]).all()


def test_what_lies_outside_the_tensor_is_zero():
    got = load(ARRAY, (64, 8, 2), (32, -3, 2)).view(np.uint16).reshape(2, 8, 64)
    expected = np.zeros((2, 8, 64), np.uint16)
    expected[0, 3:, :32] = ARRAY[2, :5, 32:]
    assert (got == expected).all()


def test_a_box_wholly_outside_counts_its_bytes_and_is_zero():
    assert not load(ARRAY, (64, 8, 1), (0, 20, 0)).any()


@pytest.mark.parametrize(("swizzle", "width"), [(128, 64), (64, 32), (32, 16)])
def test_a_swizzle_exchanges_chunks_within_rows(swizzle, width):
    plain = load(ARRAY, (width, 16, 1), (0, 0, 0)).reshape(-1, 16)
    mixed = load(ARRAY, (width, 16, 1), (0, 0, 0), swizzle).reshape(-1, 16)
    chunk = np.arange(len(plain))
    mask = swizzle // 16 - 1
    assert (mixed[chunk ^ (chunk >> 3 & mask)] == plain).all()


def test_strides_of_the_tensor_need_not_be_dense():
    view = ARRAY[:, ::2, 16:48]
    assert (load(view, (32, 4, 2), (0, 3, 1)).view(np.uint16).reshape(2, 4, 32) == view[1:, 3:7]).all()


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_store_writes_only_what_is_inside(seed):
    source = np.arange(8 * 64, dtype=np.uint16)
    target = np.full((20, 64), 7, np.uint16)
    body = f"""
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 1024, [%r2];
    {WAIT}
    mov.b32 %r4, 0; mov.b32 %r5, 17;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {{%r4, %r5}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    """
    run(body, encode(target, (64, 8)), target, source, seed=seed).check()
    assert (target[17:] == source.reshape(8, 64)[:3]).all()
    assert (target[:17] == 7).all()


def test_a_reduction_adds_to_what_is_there():
    source = np.arange(256, dtype=np.float32)
    target = np.full((8, 32), 0.5, np.float32)
    body = f"""
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 1024, [%r2];
    {WAIT}
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {{0, 0}}], [%r1];
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd3], [%r1], 1024;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    """
    run(body, encode(target, (32, 8)), target, source).check()
    assert (target.ravel() == 0.5 + 2 * source).all()


def test_a_wait_leaves_the_most_recent_groups_open():
    # Group 0 must be complete before the buffer is written again; group 1 need not be.
    out = np.zeros(8, np.uint32)
    body = """
    mov.b32 %r4, 1; mov.b32 %r5, 2;
    st.shared.v4.b32 [%r1], {%r4, %r4, %r4, %r4};
    st.shared.v4.b32 [%r1+16], {%r5, %r5, %r5, %r5};
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 16;
    cp.async.bulk.commit_group;
    add.s64 %rd4, %rd2, 16;
    add.s32 %r6, %r1, 16;
    cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r6], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read COUNT;
    st.shared.v4.b32 [%r1], {%r5, %r5, %r5, %r5};
    cp.async.bulk.wait_group 0;
    """
    descriptor = encode(out.reshape(1, 8), (4, 1))
    kept, lost = [], []
    for seed in range(10):
        run(body.replace("COUNT", "1"), descriptor, out, out, seed=seed).check()
        kept.append(out[0])
        run(body.replace("COUNT", "2"), descriptor, out, out, seed=seed, checks="uninitialised").check()
        lost.append(out[0])
    assert set(kept) == {1}
    assert 2 in lost


def test_memory_that_is_no_descriptor_is_told():
    body = "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;\ncp.async.bulk.tensor.1d.shared::cta.global.tile"
    body += ".mbarrier::complete_tx::bytes [%r1], [%rd1, {0}], [%r2];"
    out = np.zeros(16, np.uint32)
    assert run(body, bytes(128), out, out).faults[0].kind == "tensor-map"


def test_a_descriptor_that_reaches_beyond_its_tensor_is_told():
    array = np.zeros((8, 64), np.uint16)
    wrong = encode(array, (64, 8))
    body = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {0, 0}], [%r2];"
    report = run(body, wrong, array[:4], np.zeros(16, np.uint32))
    assert report.faults[0].kind == "out-of-bounds"
