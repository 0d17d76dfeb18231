"""tcgen05.mma beyond the plain kinds: block scaling, narrow and integer operands, .ws, scaled and masked D; shift, packing.

Each against a product that numpy computes from values, not by the emulator's tables. PTX ISA 9.7.16.10, 5.2.3.
"""

import numpy as np
import pytest

from tests.emulator.test_tensor import K_MAJOR, SHAPE, A, B, bf16, multiply, run, swizzle_rows
from tests.emulator.test_tensor_kinds import swizzled_bytes

FOURS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
STEPS = [(2 * k, 2 * k) for k in range(4)]
BOTH = (K_MAJOR, K_MAJOR)


def eight(codes: np.ndarray) -> np.ndarray:
    """e4m3 of codes whose exponent field is not 0."""
    return np.where(codes >> 7, -1, 1) * 2.0 ** ((codes >> 3 & 15) - 7.0) * (1 + (codes & 7) / 8)


def six(codes: np.ndarray, fraction: int, bias: int) -> np.ndarray:
    """A float of 6 bits: no infinities, no NaN."""
    field, low = codes >> fraction & (1 << 5 - fraction) - 1, codes & (1 << fraction) - 1
    magnitude = np.where(field == 0, 2.0 ** (1 - bias) * low / 2**fraction, 2.0 ** (field - bias) * (1 + low / 2**fraction))
    return np.where(codes >> 5, -magnitude, magnitude)


SCALED = {
    "mxf8f6f4.block_scale.block32": (1, 32, "ue8m0"),
    "mxf4.block_scale.scale_vec::2X": (2, 64, "ue8m0"),
    "mxf4nvf4.block_scale.block32": (2, 64, "ue8m0"),
    "mxf4nvf4.block_scale.block16": (4, 64, "ue4m3"),
    "mxf4nvf4.block_scale.scale_vec::4X": (4, 64, "ue8m0"),
}


def operands(k: int, rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Values (rows, 4 k) of A and B, and their bytes: e2m1, two a byte, or e4m3."""
    if k == 64:
        codes = [rng.integers(0, 16, (rows, 256)) for rows in (128, 16)]
        return [FOURS[one] for one in codes], [(one[:, ::2] | one[:, 1::2] << 4).astype(np.uint8) for one in codes]
    codes = [rng.integers(0, 2, (rows, 128)) << 7 | rng.integers(0x30, 0x48, (rows, 128)) for rows in (128, 16)]
    return [eight(one) for one in codes], [one.astype(np.uint8) for one in codes]


def scale_columns(scales: np.ndarray) -> np.ndarray:
    """Words (128 lanes, columns) of scales (rows, blocks): row r in lane r % 32 of its column, four blocks a word, in each
    quadrant."""
    padded = np.zeros((-(-len(scales) // 32) * 32, scales.shape[1]), np.uint8)
    padded[: len(scales)] = scales
    words = padded.view(np.uint32).reshape(-1, 32, scales.shape[1] // 4)
    return np.tile(words.transpose(1, 2, 0).reshape(32, -1), (4, 1))


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("kind", list(SCALED))
def test_blocks_of_k_are_scaled(kind, seed):
    blocks, k, format = SCALED[kind]
    rng = np.random.default_rng(5)
    values, tiles = operands(k, rng)
    low, high = (124, 131) if format == "ue8m0" else (0x30, 0x40)
    scales = [rng.integers(low, high, (rows, 4 * blocks)).astype(np.uint8) for rows in (128, 16)]
    factors = [2.0 ** (one - 127.0) if format == "ue8m0" else eight(one) for one in scales]
    left, right = (one * np.repeat(factor, k // blocks, 1) for one, factor in zip(values, factors))
    columns = np.concatenate([scale_columns(one) for one in scales], 1)
    tile_b = swizzled_bytes(tiles[1]).view(np.uint8).ravel()
    count = columns.shape[1]
    before = f"mul.wide.u32 %rd10, %r0, {4 * count}; add.s64 %rd10, %rd2, %rd10; add.s64 %rd10, %rd10, {len(tile_b)};"
    for column in range(count):
        before += f"ld.global.b32 %r50, [%rd10+{4 * column}]; add.s32 %r51, %r8, {16 + column};"
        before += "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51], {%r50};"
    before += "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
    shape = 8 << 24 | 2 << 17 | (0 if k == 32 else 1 << 7 | 1 << 10) | (format == "ue8m0") << 23

    def form(step: int) -> str:
        group, first = divmod(step * blocks, 4)
        word = shape | first << 29 | first << 4
        places = f"add.s32 %r52, %r6, {16 + 4 * group}; add.s32 %r53, %r6, {16 + 4 * blocks + group};"
        return places + f"tcgen05.mma.cta_group::1.kind::{kind} [%r6], %rd6, %rd7, {word}, [%r52], [%r53], {int(step > 0)};"

    both = np.concatenate([tile_b, np.ascontiguousarray(columns).view(np.uint8).ravel()])
    got = multiply(swizzled_bytes(tiles[0]), both, 0, STEPS, BOTH, before=before, form=form, seed=seed)
    assert np.abs(got - left @ right.T).max() <= 1e-6 * np.abs(left @ right.T).max()


@pytest.mark.parametrize(("code", "bits"), [(3, 6), (4, 6), (5, 4)])
def test_narrow_floats_lie_sixteen_in_16_bytes(code, bits):
    rng = np.random.default_rng(6)
    codes = [rng.integers(0, 1 << bits, (rows, 128)) for rows in (128, 16)]
    left, right = ({3: lambda c: six(c, 3, 1), 4: lambda c: six(c, 2, 3), 5: lambda c: FOURS[c]}[code](one) for one in codes)
    tiles = []
    for one in codes:
        packed = [sum(int(value) << bits * place for place, value in enumerate(chunk)) for chunk in one.reshape(-1, 16)]
        image = np.frombuffer(b"".join(number.to_bytes(16, "little") for number in packed), np.uint8)
        tiles.append(swizzled_bytes(image.reshape(len(one), 128)))
    got = multiply(*tiles, 8 << 24 | 2 << 17 | code << 10 | code << 7 | 1 << 4, STEPS, BOTH, kind="f8f6f4")
    assert (got == left @ right.T).all()


@pytest.mark.parametrize(("signed", "saturates"), [((1, 1), False), ((0, 0), False), ((1, 0), True)])
def test_integers_multiply_modulo_2_to_32_or_saturate(signed, saturates):
    rng = np.random.default_rng(7)
    a, b = (rng.integers(0, 256, (rows, 128)).astype(np.uint8) for rows in (128, 16))
    left, right = (one.view(np.int8 if sign else np.uint8).astype(np.int64) for one, sign in zip((a, b), signed))
    shape = 8 << 24 | 2 << 17 | signed[1] << 10 | signed[0] << 7 | 2 << 4 | int(saturates) << 3
    got = multiply(swizzled_bytes(a), swizzled_bytes(b), shape, STEPS, BOTH, kind="i8")
    assert (got.view(np.int32) == left @ right.T).all()


def test_sums_of_integers_that_do_not_fit_are_clamped_if_asked():
    a, b = (np.full((rows, 128), 127, np.uint8) for rows in (128, 16))
    fill = "".join(
        f"add.s32 %r51, %r8, {column}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51], {{%r50}};" for column in range(16)
    )
    before = f"mov.b32 %r50, {2**31 - 1 - 16129 * 128 + 5};" + fill + "tcgen05.wait::st.sync.aligned; bar.sync 0;"
    shape = 8 << 24 | 2 << 17 | 1 << 10 | 1 << 7 | 2 << 4

    def form(saturates: int):
        return lambda step: f"tcgen05.mma.cta_group::1.kind::i8 [%r6], %rd6, %rd7, {shape | saturates << 3}, 1;"

    tiles = swizzled_bytes(a), swizzled_bytes(b)
    for saturates, wanted in ((0, -(2**31) + 4), (1, 2**31 - 1)):
        got = multiply(*tiles, 0, STEPS, BOTH, before=before, form=form(saturates), checks="uninitialised")
        assert (got.view(np.int32) == wanted).all()


def test_d_is_scaled_down_before_it_is_added_to():
    def form(step: int) -> str:
        return f"tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd7, {SHAPE}, {int(step > 0)}, {3 if step == 2 else 0};"

    got = multiply(swizzle_rows(bf16(A)), swizzle_rows(bf16(B)), SHAPE, STEPS, BOTH, form=form)
    parts = [A[:, 16 * k : 16 * k + 16] @ B[:, 16 * k : 16 * k + 16].T for k in range(4)]
    assert (got == (parts[0] + parts[1]) / 8 + parts[2] + parts[3]).all()


def test_disabled_lanes_keep_what_they_have():
    masks = (0x5, 0, 0xFFFFFFFF, 0x80000000)
    words = ", ".join(f"%r{54 + number}" for number in range(4))
    moves = "".join(f"mov.b32 %r{54 + number}, {mask};" for number, mask in enumerate(masks))

    def form(step: int) -> str:
        lanes = words if step == 3 else ", ".join(4 * ["0"])
        return moves + f"tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd6, %rd7, {SHAPE}, {{{lanes}}}, {int(step > 0)};"

    got = multiply(swizzle_rows(bf16(A)), swizzle_rows(bf16(B)), SHAPE, STEPS, BOTH, form=form)
    off = np.array([masks[lane // 32] >> lane % 32 & 1 for lane in range(128)], bool)
    assert (got[~off] == (A @ B.T)[~off]).all() and (got[off] == (A[:, :48] @ B[:, :48].T)[off]).all()


@pytest.mark.parametrize("rows", [32, 64, 128])
def test_stationary_weights_put_parts_of_n_below_each_other(rows):
    wide = np.random.default_rng(8).integers(-4, 5, (64, 64))
    shape = rows >> 4 << 24 | 8 << 17 | 0x490

    def form(step: int) -> str:
        return f"tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::fill [%r6], %rd6, %rd7, {shape}, {int(step > 0)};"

    got = multiply(swizzle_rows(bf16(A[:rows])), swizzle_rows(bf16(wide)), 0, STEPS, BOTH, form=form)
    wanted = A[:rows] @ wide.T
    for part in range(128 // rows):
        first = part * 64 * rows // 128
        assert (got[part * rows : (part + 1) * rows] == wanted[:, first : first + 16]).all()


def test_rows_shift_down_by_a_lane():
    values = "".join(f"shl.b32 %r{20 + n}, %r0, 8; add.s32 %r{20 + n}, %r{20 + n}, {n};" for n in range(8))
    names = ", ".join(f"%r{20 + n}" for n in range(8))
    body = values + f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r8], {{{names}}}; tcgen05.wait::st.sync.aligned;"
    body += "tcgen05.fence::before_thread_sync; bar.sync 0; @!%p1 bra SHIFTED; elect.sync %r5|%p2, -1; @!%p2 bra SHIFTED;"
    body += "tcgen05.fence::after_thread_sync; add.s32 %r9, %r6, 2097152; tcgen05.shift.cta_group::1.down [%r9];"
    body += "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3]; SHIFTED:"
    body += "WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra WAIT; tcgen05.fence::after_thread_sync;"
    body += f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{names}}}, [%r8]; tcgen05.wait::ld.sync.aligned;"
    body += "mul.wide.u32 %rd4, %r0, 32; add.s64 %rd5, %rd3, %rd4;"
    body += "".join(f"st.global.b32 [%rd5+{4 * n}], %r{20 + n};" for n in range(8))
    out = np.zeros((128, 8), np.uint32)
    run(body, out, out, out).check()
    lane = np.arange(128)
    lane[32:63] += 1  # the second quadrant; its last lane keeps its own
    assert (out == (lane[:, None] << 8) + np.arange(8)).all()


@pytest.mark.parametrize("seed", [None, 0, 3])
@pytest.mark.parametrize(("shape", "registers"), [("32x32b.x2", 2), ("16x256b.x1", 4), ("16x64b.x2", 2)])
def test_packed_registers_are_two_columns_of_16_bits(shape, registers, seed):
    names = ", ".join(f"%r{20 + n}" for n in range(registers))
    packed = "".join(
        f"mul.lo.s32 %r{20 + n}, %r0, 65539; add.s32 %r{20 + n}, %r{20 + n}, {0x10000 * n};" for n in range(registers)
    )
    body = packed + f"tcgen05.st.sync.aligned.{shape}.unpack::16b.b32 [%r8], {{{names}}}; tcgen05.wait::st.sync.aligned;"
    body += f"tcgen05.ld.sync.aligned.{shape}.pack::16b.b32 {{{names}}}, [%r8];"
    back = "".join(f"%r{30 + n}, " for n in range(2))[:-2]
    body += f"tcgen05.ld.sync.aligned.16x64b.x2.b32 {{{back}}}, [%r8]; tcgen05.wait::ld.sync.aligned;"
    body += "mul.wide.u32 %rd4, %r0, 24; add.s64 %rd5, %rd3, %rd4;"
    body += "".join(f"st.global.b32 [%rd5+{4 * n}], %r{20 + n};" for n in range(registers))
    body += "".join(f"st.global.b32 [%rd5+{16 + 4 * n}], %r{30 + n};" for n in range(2))
    out = np.zeros((128, 6), np.uint32)
    run(body, out, out, out, seed=seed).check()
    thread = np.arange(128, dtype=np.uint32)
    assert (out[:, :registers] == thread[:, None] * 65539 + 0x10000 * np.arange(registers, dtype=np.uint32)).all()
    if shape == "32x32b.x2":
        # 16x64b: register r of thread t is lane t / 4 + 8 (t & 1), column 2 r + (t >> 1 & 1): halves of columns 0 to 3.
        lane = thread % 32 // 4 + 8 * (thread & 1) + 32 * (thread // 32)
        for r in range(2):
            word = lane * np.uint32(65539) + np.uint32(0x10000 * r)
            assert (out[:, 4 + r] == np.where(thread >> 1 & 1, word >> np.uint32(16), word & np.uint32(0xFFFF))).all()
