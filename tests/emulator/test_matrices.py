"""ldmatrix and stmatrix of bytes and of narrower values: which thread gets which. PTX ISA 9.7.14.5.15, .16; the 16-bit forms are
compared with an H200 in silicon/."""

import numpy as np
import pytest

from tests.emulator.snippet import run

SHARED = ".extern .shared .align 128 .b8 smem[];"
FILL = """
    mov.u32 %r0, %laneid; mov.b32 %r1, smem; shl.b32 %r2, %r0, 4; add.s32 %r3, %r1, %r2;
    mul.wide.u32 %rd8, %r0, 16; add.s64 %rd9, %rd0, %rd8;
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd9];
"""
OUT = "mul.wide.u32 %rd10, %r0, 16; add.s64 %rd11, %rd1, %rd10;"
LANE = np.arange(32)


def registers(instruction: str, image: np.ndarray, count: int) -> np.ndarray:
    """Bytes (lane, register, 4) that a load gives, of 32 rows of 16 bytes whose addresses the lanes give."""
    names = ", ".join(f"%r{10 + n}" for n in range(count))
    body = FILL + "st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;" + OUT
    body += f"{instruction} {{{names}}}, [%r3];" + "".join(f"st.global.b32 [%rd11+{4 * n}], %r{10 + n};" for n in range(count))
    out = np.zeros((32, 4), np.uint32)
    run(body, image, out, declarations=SHARED, shared_bytes=512).check()
    return out.view(np.uint8).reshape(32, 4, 4)[:, :count]


IMAGE = np.random.default_rng(2).integers(0, 256, (32, 16)).astype(np.uint8)


@pytest.mark.parametrize("tiles", [1, 2])
def test_a_tile_of_bytes_is_loaded_turned(tiles):
    got = registers(f"ldmatrix.sync.aligned.m16n16.x{tiles}.trans.shared.b8", IMAGE, 2 * tiles)
    for tile in range(tiles):
        turned = IMAGE[16 * tile : 16 * tile + 16].T
        for half in range(2):
            wanted = turned[LANE[:, None] // 4 + 8 * half, 4 * (LANE[:, None] % 4) + np.arange(4)]
            assert (got[:, 2 * tile + half] == wanted).all()


@pytest.mark.parametrize(("kind", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
@pytest.mark.parametrize("tiles", [1, 4])
def test_narrow_values_are_spread_over_bytes(kind, bits, tiles):
    got = registers(f"ldmatrix.sync.aligned.m8n16.x{tiles}.shared.b8x16.{kind}", IMAGE, tiles)
    numbers = [int.from_bytes(row.tobytes(), "little") for row in IMAGE]
    values = np.array([[number >> bits * place & (1 << bits) - 1 for place in range(16)] for number in numbers])
    for tile in range(tiles):
        assert (got[:, tile] == values[8 * tile + LANE[:, None] // 4, 4 * (LANE[:, None] % 4) + np.arange(4)]).all()


def test_a_stored_tile_of_bytes_is_the_transpose_of_what_is_held():
    body = FILL + "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r3], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;" + OUT
    body += "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3]; st.global.v4.b32 [%rd11], {%r10, %r11, %r12, %r13};"
    out = np.zeros((32, 16), np.uint8)
    run(body, IMAGE, out, declarations=SHARED, shared_bytes=512).check()
    held = IMAGE.reshape(32, 4, 4)  # lane, register, byte
    for register in range(4):
        for byte in range(4):
            rows, columns = 8 * register + 2 * (LANE % 4) + byte % 2, LANE // 4 + 8 * (byte // 2)
            assert (out[rows, columns] == held[:, register, byte]).all()
