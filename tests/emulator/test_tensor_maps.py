"""TMA by descriptors: gathered and scattered rows, elements of 4 and 6 bits, descriptors that a kernel changes. PTX ISA 5.5."""

import struct

import numpy as np
import pytest
from attnspec.emulator.machine.global_memory import GlobalMemory, region
from attnspec.emulator.machine.tensor_map import TensorMap, decode, window

from tests.emulator.tensor_maps import encode
from tests.emulator.test_tma import WAIT, run

ARRAY = np.arange(20 * 64, dtype=np.uint16).reshape(20, 64)
GATHER = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
STORE = """
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {bytes};
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize("seed", [None, 1])
def test_four_rows_are_gathered_those_outside_are_0(seed):
    out = np.zeros((4, 32), np.uint16)
    body = f"""
    mov.b32 %r5, 20;
    mov.b32 %r6, -1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
    {GATHER} [%r1], [%rd1, {{8, 3, %r5, 17, %r6}}], [%r2];
    {WAIT}"""
    run(body + STORE.format(bytes=256), encode(ARRAY, (32, 1)), ARRAY, out, seed=seed).check()
    assert (out == np.stack([ARRAY[3, 8:40], ARRAY[0, 8:40] * 0, ARRAY[17, 8:40], ARRAY[0, 8:40] * 0])).all()


def test_four_rows_are_scattered_those_outside_are_dropped():
    target, source = np.zeros((20, 64), np.uint16), np.arange(1, 129, dtype=np.uint16).reshape(4, 32)
    body = f"""
    mov.b32 %r5, 25;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 256, [%r2];
    {WAIT}
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {{40, 7, %r5, 0, 19}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    """
    run(body, encode(target, (32, 1)), target, source).check()
    wanted = np.zeros_like(target)
    for row, values in ((7, source[0]), (0, source[2]), (19, source[3])):
        wanted[row, 40:64] = values[:24]
    assert (target == wanted).all()


def narrow(array: np.ndarray, code: int, sizes: tuple[int, int], box: tuple[int, int]) -> bytes:
    """A descriptor of rows of bytes whose elements are of 4 or 6 bits; sizes and box count elements, innermost first."""
    words = list(struct.unpack("<8Q", encode(array, box)[:64]))
    words[1] = words[1] & ~(15 << 7) | code << 7
    words[4] = sizes[0] - 1 | sizes[1] - 1 << 32
    return struct.pack("<8Q", *words) + bytes(64)


@pytest.mark.parametrize(("code", "bits", "padded"), [(11, 4, False), (12, 4, True), (13, 6, True)])
def test_elements_of_4_and_6_bits_are_packed_or_padded_to_16_bytes(code, bits, padded):
    array = np.random.default_rng(1).integers(0, 256, (6, 128 * bits // 8)).astype(np.uint8)
    each = 16 * bits // 8  # bytes of 16 elements
    moved, filled = 4 * 64 * bits // 8, 4 * (64 if padded else 64 * bits // 8)
    out = np.zeros(filled, np.uint8)
    body = f"""
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {moved};
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {{32, 1}}], [%r2];
    {WAIT}"""
    run(body + STORE.format(bytes=filled), narrow(array, code, (128, 6), (64, 4)), array, out).check()
    part = array[1:5, 2 * each : 6 * each].reshape(16, each)
    wanted = np.pad(part, ((0, 0), (0, 16 - each))) if padded else part
    assert (out == wanted.ravel()).all()


def test_a_kernel_changes_a_descriptor_and_loads_by_it():
    other = np.arange(1000, 1000 + 12 * 32, dtype=np.uint16).reshape(12, 32)
    out = np.zeros((4, 32), np.uint16)
    words = "\n".join(f"ld.param.b64 %rd{10 + n}, [map+{8 * n}]; st.shared.b64 [%r1+{8 * n}], %rd{10 + n};" for n in range(8))
    body = f"""
    {words}
    mov.b64 %rd20, 64;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %rd3;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 0, %rd20;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 0, 32;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 1, 12;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 1, 4;
    add.s64 %rd21, %rd2, 256;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd21], [%r1], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd21], 128;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd21, {{0, 10}}], [%r2];
    {WAIT}"""
    memory = np.zeros(256 + 128 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory = memory[start : start + 384]
    run(body + STORE.format(bytes=256), encode(ARRAY, (32, 1)), other, memory).check()
    out = memory[:256].view(np.uint16).reshape(4, 32)
    assert (out[:2] == other[10:]).all() and not out[2:].any()


def test_swizzle_by_atoms_of_32_bytes_is_told_apart():
    words = list(struct.unpack("<8Q", encode(ARRAY, (64, 8), 128)[:64]))
    words[1] |= 1 << 19
    assert decode(struct.pack("<8Q", *words)).swizzle == 4


def test_a_view_that_begins_before_all_memory_is_read_where_its_box_lies():
    """Packed sequences are views whose last row is at hand; where a heap lies low, the first has no address but modulo 2^64."""
    array, apart = np.arange(64, dtype=np.float32), 1 << 46  # three of these are more than any address of a process
    first = (array.ctypes.data - 3 * apart) % (1 << 64)
    memory = GlobalMemory((region("array", array.ctypes.data, array.nbytes, array),))
    found = window(memory, TensorMap(first, 7, 4, (64, 8), (4, apart), (64, 1), 0), (0, 3))
    assert found is not None and np.array_equal(found.view.view(np.float32)[0], array)
