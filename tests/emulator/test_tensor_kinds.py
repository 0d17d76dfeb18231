"""tcgen05 with other kinds, 64 rows, faithful sums, and tcgen05.cp."""

import numpy as np
import pytest
from attnspec.emulator.numerics.faithful import Form

from tests.emulator.test_faithful import one_sum
from tests.emulator.test_tensor import K_MAJOR, SHAPE, A, B, bf16, multiply, run, swizzle_rows


def swizzled_bytes(matrix: np.ndarray) -> np.ndarray:
    """(rows, 128 bytes) as a K-major tile with a 128-byte swizzle."""
    return swizzle_rows(np.ascontiguousarray(matrix).view(np.uint16))


def test_tf32_multiplies_8_at_a_time():
    a, b = A[:, :32].astype(np.float32), B[:, :32].astype(np.float32)
    shape = 8 << 24 | 2 << 17 | 2 << 10 | 2 << 7 | 1 << 4
    steps = [(2 * k, 2 * k) for k in range(4)]
    got = multiply(swizzled_bytes(a), swizzled_bytes(b), shape, steps, (K_MAJOR, K_MAJOR), kind="tf32")
    assert (got == a @ b.T).all()


@pytest.mark.parametrize(("code", "one", "step"), [(0, 0x38, 8), (1, 0x3C, 4)])
def test_fp8_multiplies_32_at_a_time(code, one, step):
    # Codes of 1 and 2 with signs: one octave up is one exponent up.
    rng = np.random.default_rng(3)
    octaves = [rng.integers(0, 2, (rows, 128)) for rows in (128, 16)]
    signs = [rng.integers(0, 2, (rows, 128)) for rows in (128, 16)]
    a, b = ((one + step * power | sign << 7).astype(np.uint8) for power, sign in zip(octaves, signs))
    shape = 8 << 24 | 2 << 17 | code << 10 | code << 7 | 1 << 4
    got = multiply(
        swizzled_bytes(a), swizzled_bytes(b), shape, [(2 * k, 2 * k) for k in range(4)], (K_MAJOR, K_MAJOR), kind="f8f6f4"
    )
    left, right = (2.0**power * np.where(sign, -1, 1) for power, sign in zip(octaves, signs))
    assert (got == left @ right.T).all()


def test_64_rows_lie_in_16_lanes_of_each_quadrant():
    a, b = swizzle_rows(bf16(A[:64])), swizzle_rows(bf16(B))
    steps = [(2 * k, 2 * k) for k in range(4)]
    got = multiply(a, b, 4 << 24 | 2 << 17 | 0x490, steps, (K_MAJOR, K_MAJOR), checks="none")
    lanes = np.concatenate([np.arange(32 * quadrant, 32 * quadrant + 16) for quadrant in range(4)])
    assert (got[lanes] == A[:64] @ B.T).all()


def test_faithful_sums_of_a_kernel_are_those_of_the_rule():
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((rows, 64)).astype(np.float32).view(np.uint32) >> 16 for rows in (128, 16))
    wide = [(one << np.uint32(16)).astype(np.uint32).view(np.float32) for one in (a, b)]
    tiles = [swizzle_rows(one.astype(np.uint16)) for one in (a, b)]
    got = multiply(*tiles, SHAPE, [(2 * k, 2 * k) for k in range(4)], (K_MAJOR, K_MAJOR), numerics="faithful")
    for m, n in ((0, 0), (5, 3), (127, 15)):
        held = 0
        for k in range(0, 64, 16):
            held = float(one_sum(wide[0][m, k : k + 16], wide[1][n, k : k + 16], held, Form("bf16", "bf16")))
        assert got[m, n] == held


COPY = """
    @!%p1 bra COPIED;
    elect.sync %r5|%p2, -1;
    @!%p2 bra COPIED;
    add.s32 %r22, %r3, 24;
    mbarrier.init.shared.b64 [%r22], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r22], {bytes};
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {bytes}, [%r22];
LOADED: mbarrier.try_wait.parity.shared.b64 %p3, [%r22], 0;
    @!%p3 bra LOADED;
    shr.u32 %r23, %r1, 4;
    add.s32 %r23, %r23, {leading};
    mov.b64 %rd6, {{%r23, {upper}}};
    tcgen05.cp.cta_group::1.{shape} [%r6], %rd6;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
COPIED:
FINISHED: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
    @!%p3 bra FINISHED;
    tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{registers}}}, [%r8];
    tcgen05.wait::ld.sync.aligned;
    mul.wide.u32 %rd4, %r0, {pitch};
    add.s64 %rd5, %rd3, %rd4;
    {stores}
"""


def copied(words: np.ndarray, shape: str, lanes_columns: int) -> np.ndarray:
    """Tensor memory (128, columns) after a copy of rows of words, which lie in groups of 8 rows of 16 bytes."""
    rows = len(words)
    cores = np.ascontiguousarray(words.reshape(rows // 8, 8, -1, 4).transpose(0, 2, 1, 3))
    names = [f"%r{30 + number}" for number in range(lanes_columns)]
    body = COPY.format(
        bytes=words.nbytes, shape=shape, columns=lanes_columns, registers=", ".join(names), pitch=4 * lanes_columns,
        leading=128 >> 4 << 16, upper=1 << 14 | 8 * words.shape[1] * 4 >> 4,
        stores="\n".join(f"st.global.b32 [%rd5+{4 * number}], {name};" for number, name in enumerate(names)),
    )  # fmt: skip
    out = np.zeros((128, lanes_columns), np.uint32)
    run(body, cores, out, out).check()
    return out


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "row_of_lane"),
    [
        ("128x256b", 128, 8, np.arange(128)),
        ("128x128b", 128, 4, np.arange(128)),
        ("64x128b.warpx2::02_13", 64, 4, np.tile(np.arange(64), 2)),
        ("64x128b.warpx2::01_23", 64, 4, np.concatenate([np.tile(np.arange(32), 2), np.tile(np.arange(32, 64), 2)])),
        ("32x128b.warpx4", 32, 4, np.tile(np.arange(32), 4)),
    ],
)
def test_a_copy_puts_rows_into_lanes(shape, rows, columns, row_of_lane):
    words = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    assert (copied(words, shape, columns) == words[row_of_lane]).all()
