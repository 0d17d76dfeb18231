"""wgmma is done by four warps together: none is done before all have issued it. PTX ISA 9.7.15."""

import numpy as np
import pytest
from attnspec.emulator.launch import run_ptx
from attnspec.emulator.report import Report

PTX = """
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry snippet(.param .u64 tiles, .param .u64 out)
.reqntid 128, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<16>;
    ld.param.b64 %rd1, [tiles];
    ld.param.b64 %rd2, [out];
    mov.b32 %r1, smem;
    mov.u32 %r0, %tid.x;
    shr.u32 %r2, %r0, 5;
    setp.eq.b32 %p1, %r2, 0;
    setp.eq.b32 %p2, %r2, 3;
    shl.b32 %r3, %r0, 4;
    add.s32 %r4, %r1, %r3;
    mul.wide.u32 %rd3, %r0, 16;
    add.s64 %rd4, %rd1, %rd3;
    {fill}
    fence.proxy.async;
    bar.sync 0;
    shr.u32 %r5, %r1, 4;
    add.s32 %r6, %r5, 512;
    mov.b64 %rd5, {{%r5, 0x40000040}};
    mov.b64 %rd6, {{%r6, 0x40000040}};
    mul.wide.u32 %rd7, %r0, 16;
    add.s64 %rd8, %rd2, %rd7;
    mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
{body}
    st.global.v4.b32 [%rd8], {{%r10, %r11, %r12, %r13}};
    ret;
}}
"""
FOUR = "{%r20, %r21, %r22, %r23}"
FILL = "\n".join(f"ld.global.v4.b32 {FOUR}, [%rd4+{at}]; st.shared.v4.b32 [%r4+{at}], {FOUR};" for at in range(0, 10240, 2048))
MULTIPLY = """
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11, %r12, %r13}, %rd5, %rd6, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
"""
WAIT = "wgmma.wait_group.sync.aligned 0;"
RNG = np.random.default_rng(1)
A, B = RNG.integers(-4, 5, (64, 64)), RNG.integers(-4, 5, (8, 64))


def tile(matrix: np.ndarray) -> np.ndarray:
    """(rows, 64) as bf16 with a 128-byte swizzle."""
    chunks = (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).reshape(len(matrix), 8, 8)
    result, row = np.empty_like(chunks), np.arange(len(matrix))[:, None]
    result[row, np.arange(8)[None] ^ row % 8] = chunks
    return result


def run(body: str, out: np.ndarray, **options) -> Report:
    tiles = np.concatenate([tile(A).ravel(), tile(B).ravel(), np.zeros(1024, np.uint16)])
    return run_ptx(PTX.format(fill=FILL, body=body), [tiles, out], shared_bytes=16384, **options)


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_memory_may_be_written_once_a_wait_has_passed(seed):
    # Warp 0 overwrites B as soon as its own wait has passed: then the other three have issued theirs, and all are complete.
    out = np.zeros((128, 4), np.float32)
    run(MULTIPLY + WAIT + "add.s32 %r7, %r4, 8192; @%p1 st.shared.v4.b32 [%r7], {%r0, %r0, %r0, %r0};", out, seed=seed).check()
    thread = np.arange(128)[:, None]
    register = np.arange(4)[None]
    rows = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register // 2)
    assert (out == (A[:, :16] @ B[:, :16].T)[rows, 2 * (thread % 4) + register % 2]).all()


def test_a_warp_that_leaves_its_product_out_is_waited_for_in_vain():
    found = run("@%p2 bra PAST;" + MULTIPLY + WAIT + "PAST:", np.zeros((128, 4), np.float32)).faults[0]
    assert found.kind == "deadlock" and "warp 2 1, warp 3 0" in found.message


def test_warps_that_issue_different_products_are_told():
    body = "@%p2 bra OTHER;" + MULTIPLY + WAIT + "bra PAST; OTHER:" + MULTIPLY + WAIT + "PAST:"
    found = run(body, np.zeros((128, 4), np.float32)).faults[0]
    assert found.kind == "divergent" and "different wgmma" in found.message
