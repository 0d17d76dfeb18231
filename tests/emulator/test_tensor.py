"""Tensor memory and tcgen05: allocation, access, multiplication, and what goes wrong with them."""

from collections.abc import Callable

import numpy as np
import pytest
from attnspec.emulator.launch import run_ptx
from attnspec.emulator.report import Report

PTX = """
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry snippet(.param .u64 a, .param .u64 b, .param .u64 out)
.reqntid 128, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b32 %r<64>;
    .reg .b64 %rd<32>;
    ld.param.b64 %rd1, [a];
    ld.param.b64 %rd2, [b];
    ld.param.b64 %rd3, [out];
    mov.b32 %r1, smem;
    mov.u32 %r0, %tid.x;
    shr.u32 %r2, %r0, 5;
    setp.eq.b32 %p1, %r2, 0;
    add.s32 %r3, %r1, {room};
    add.s32 %r4, %r3, 16;
    @!%p1 bra READY;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], {columns};
    elect.sync %r5|%p2, -1;
    @%p2 mbarrier.init.shared.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    ld.shared.b32 %r6, [%r4];
    shl.b32 %r7, %r2, 21;
    add.s32 %r8, %r6, %r7;
{body}
    bar.sync 0;
    @!%p1 bra DONE;
{ending}
DONE:
    ret;
}}
"""
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, {columns};"
NOTHING = np.zeros(4, np.uint32)


def run(body: str, *arrays: np.ndarray, columns: int = 64, room: int = 65536, ending: str = FREE, **options) -> Report:
    """%rd1 to %rd3 arrays, %r1 shared memory, %r2 the warp, %r3 an mbarrier, %r6 tensor memory, %r8 this warp's lanes of it."""
    text = PTX.format(body=body, columns=columns, room=room, ending=ending.format(columns=columns))
    arrays = (*arrays, *(3 - len(arrays)) * [NOTHING])
    return run_ptx(text, arrays, shared_bytes=room + 32, **options)


STORE = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r8], {%r10, %r11}; tcgen05.wait::st.sync.aligned;"
ROW = "mul.wide.u32 %rd4, %r0, 8; add.s64 %rd5, %rd3, %rd4;"


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_lane_finds_what_it_stored(seed):
    out = np.zeros((128, 2), np.uint32)
    body = "mov.b32 %r10, %r0; add.s32 %r11, %r0, 1000;" + STORE + ROW
    body += "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r12, %r13}, [%r8]; tcgen05.wait::ld.sync.aligned;"
    run(body + "st.global.v2.b32 [%rd5], {%r13, %r12};", out, out, out, seed=seed).check()
    assert (out == np.arange(128)[:, None] + [1000, 0]).all()


def test_registers_of_a_load_may_be_used_without_a_wait():
    out = np.zeros((128, 2), np.uint32)
    body = "mov.b32 %r10, %r0; mov.b32 %r11, 5;" + STORE + ROW
    body += "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r12, %r13}, [%r8]; add.s32 %r13, %r13, %r12;"
    for seed in (None, 0, 1, 2):
        run(body + "st.global.v2.b32 [%rd5], {%r13, %r12};", out, out, out, seed=seed).check()
        assert (out == np.arange(128)[:, None] + [5, 0]).all()


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_registers_of_a_load_packed_before_a_branch_hold_what_was_loaded(seed):
    out = np.zeros((128, 2), np.uint32)
    body = "mov.b32 %r10, %r0; mov.b32 %r11, 5;" + STORE + ROW
    body += "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r12, %r13}, [%r8]; mov.b64 %rd9, {%r12, %r13}; bra NEXT; NEXT: bra AGAIN;"
    run(body + "AGAIN: st.global.b64 [%rd5], %rd9;", out, out, out, seed=seed).check()
    assert (out == np.arange(128)[:, None] * [1, 0] + [0, 5]).all()


def test_a_place_overwritten_before_wait_ld_may_give_the_new_value():
    out = np.zeros((128, 2), np.uint32)
    body = "mov.b32 %r10, 1; mov.b32 %r11, 1;" + STORE + ROW
    body += "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r12, %r13}, [%r8]; mov.b32 %r10, 2; mov.b32 %r11, 2;" + STORE
    body += "tcgen05.wait::ld.sync.aligned; st.global.v2.b32 [%rd5], {%r13, %r12};"
    seen = set()
    for seed in range(12):
        run(body, out, out, out, seed=seed, checks="uninitialised").check()
        seen |= set(out.ravel().tolist())
    assert seen == {1, 2}


@pytest.mark.parametrize(("shape", "registers"), [("16x64b", 1), ("16x128b", 2), ("16x256b", 4)])
def test_16_lane_shapes_reach_every_place_once(shape, registers):
    names = ", ".join(f"%r{20 + number}" for number in range(registers))
    body = "".join(f"mov.b32 %r{20 + number}, %r0;" for number in range(registers))
    body += f"tcgen05.st.sync.aligned.{shape}.x1.b32 [%r8], {{{names}}}; tcgen05.wait::st.sync.aligned;"
    body += "add.s32 %r9, %r8, 1048576;"  # lanes 16 to 31
    body += f"tcgen05.st.sync.aligned.{shape}.x1.b32 [%r9], {{{names}}}; tcgen05.wait::st.sync.aligned;"
    columns = 2 * registers
    body += f"tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{', '.join(f'%r{30 + n}' for n in range(columns))}}}, [%r8];"
    body += "tcgen05.wait::ld.sync.aligned; mul.wide.u32 %rd4, %r0, 32; add.s64 %rd5, %rd3, %rd4;"
    body += "".join(f"st.global.b32 [%rd5+{4 * n}], %r{30 + n};" for n in range(columns))
    out = np.full((128, 8), 9999, np.uint32)
    run(body, out, out, out).check()
    counts = np.bincount(out[:32, :columns].ravel(), minlength=32)
    assert (counts[:32] == 2 * registers).all()


def test_a_warp_reaches_its_own_quadrant_only():
    body = "mov.b32 %r10, 0; mov.b32 %r11, 0; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r6], {%r10, %r11};"
    found = run("@%p1 bra SKIP;" + body + "SKIP:").faults[0]
    assert found.kind == "tensor-quadrant" and "the address says lane 0" in found.message
    assert found.text.startswith("tcgen05.st")


def test_columns_that_are_not_allocated_are_told():
    body = "mov.b32 %r10, 0; mov.b32 %r11, 0; add.s32 %r8, %r8, 63;" + STORE
    assert run(body).faults[0].kind == "out-of-bounds"


def test_columns_that_were_never_written_are_told():
    found = run("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r12}, [%r8]; tcgen05.wait::ld.sync.aligned;").faults[0]
    assert found.kind == "uninitialised-tensor"


def test_tensor_memory_that_is_not_freed_is_told():
    found = run("", ending="").faults[0]
    assert found.kind == "tensor-not-freed" and "columns 0 to 63" in found.message


def test_freeing_other_columns_than_were_allocated_is_told():
    found = run("", ending="tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;").faults[0]
    assert found.kind == "tensor-allocation"


def bf16(values: np.ndarray) -> np.ndarray:
    """Small whole numbers are exact."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def swizzle_rows(matrix: np.ndarray) -> np.ndarray:
    """(rows, 64) 16-bit values as a K-major tile with a 128-byte swizzle."""
    chunks = matrix.reshape(len(matrix), 8, 8)
    row = np.arange(len(matrix))[:, None]
    result = np.empty_like(chunks)
    result[row, np.arange(8)[None] ^ row % 8] = chunks
    return result.reshape(matrix.shape)


MULTIPLY = """
    add.s32 %r22, %r3, 24;
    @!%p1 bra MULTIPLIED;
    elect.sync %r5|%p2, -1;
    @!%p2 bra MULTIPLIED;
    mbarrier.init.shared.b64 [%r22], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r22], {both};
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {a_bytes}, [%r22];
    add.s32 %r21, %r1, {a_bytes};
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r21], [%rd2], {b_bytes}, [%r22];
LOADED: mbarrier.try_wait.parity.shared.b64 %p3, [%r22], 0;
    @!%p3 bra LOADED;
    shr.u32 %r23, %r1, 4;
    shr.u32 %r24, %r21, 4;
    {steps}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
MULTIPLIED:
FINISHED: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra FINISHED;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{registers}}}, [%r8];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd4, %r0, 64;
    add.s64 %rd5, %rd3, %rd4;
    {stores}
"""


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    shape: int,
    steps: list[tuple[int, int]],
    high: tuple[int, int],
    kind: str = "f16",
    before: str = "",
    form: Callable[[int], str] | None = None,
    **options,
) -> np.ndarray:
    """D (128, 16) of tiles that lie in shared memory as given.

    steps: what each K step adds to the lower words of the descriptors; high: their upper words. before: what all warps do first;
    form: other text for a step, by its number.
    """
    lines = []
    for number, (step_a, step_b) in enumerate(steps):
        lines.append(f"add.s32 %r25, %r23, {step_a}; add.s32 %r26, %r24, {step_b};")
        lines.append(f"mov.b64 %rd6, {{%r25, {high[0]}}}; mov.b64 %rd7, {{%r26, {high[1]}}};")
        plain = f"tcgen05.mma.cta_group::1.kind::{kind} [%r6], %rd6, %rd7, {shape}, {int(number > 0)};"
        lines.append(plain if form is None else form(number))
    names = [f"%r{30 + number}" for number in range(16)]
    body = MULTIPLY.format(
        both=a.nbytes + b.nbytes,
        a_bytes=a.nbytes,
        b_bytes=b.nbytes,
        steps="\n    ".join(lines),
        registers=", ".join(names),
        stores="\n    ".join(f"st.global.b32 [%rd5+{4 * number}], {name};" for number, name in enumerate(names)),
    )
    out = np.zeros((128, 16), np.float32)
    run(before + body, a, b, out, **options).check()
    return out


A = np.random.default_rng(1).integers(-4, 5, (128, 64))
B = np.random.default_rng(2).integers(-4, 5, (16, 64))
K_MAJOR = 0x40004040  # 128-byte swizzle, version 1, groups of 8 rows 1024 bytes apart
SHAPE = 8 << 24 | 2 << 17 | 0x490  # M 128, N 16, bf16 to f32


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_product_of_k_major_tiles(seed):
    a, b = swizzle_rows(bf16(A)), swizzle_rows(bf16(B))
    got = multiply(a, b, SHAPE, [(2 * k, 2 * k) for k in range(4)], (K_MAJOR, K_MAJOR), seed=seed)
    assert (got == A @ B.T).all()


def test_a_product_with_an_mn_major_tile():
    # B stored as (k, n): 64 columns of n in a swizzled row, of which 16 are used; a step of 16 k is 2048 bytes.
    wide = np.zeros((64, 64), np.int64)
    wide[:, :16] = B.T
    got = multiply(
        swizzle_rows(bf16(A)),
        swizzle_rows(bf16(wide)),
        SHAPE | 1 << 16,
        [(2 * k, 128 * k) for k in range(4)],
        (K_MAJOR, K_MAJOR),
    )
    assert (got == A @ B.T).all()


def test_a_product_without_swizzle():
    # Core matrices of 8 rows of 16 bytes; along K 128 bytes apart, along rows 1024.
    def core(matrix: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(matrix.reshape(-1, 8, 8, 8).transpose(0, 2, 1, 3))

    plain = 1 << 14 | 1024 >> 4  # the upper word: version 1, stride 1024
    leading = 128 >> 4 << 16
    a, b = core(bf16(A)), core(bf16(B))
    steps = [(16 * k + leading, 16 * k + leading) for k in range(4)]
    assert (multiply(a, b, SHAPE, steps, (plain, plain)) == A @ B.T).all()


def test_several_lanes_that_multiply_are_told():
    body = "@!%p1 bra SKIP; mov.b64 %rd6, 0; tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd6, 1, 0; SKIP:"
    found = run(body).faults[0]
    assert found.kind == "several-lanes" and "32 lanes" in found.message


def test_a_wrong_descriptor_is_told():
    body = "setp.eq.b32 %p4, %r0, 0; @!%p4 bra SKIP; mov.b64 %rd6, 0;"
    body += f"tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd6, {SHAPE}, 0; SKIP:"
    found = run(body).faults[0]
    assert found.kind == "matrix-descriptor" and "version bits 0" in found.message
