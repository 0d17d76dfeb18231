"""The emulator against what an H200 answered, bit for bit: wgmma, TMA, matrices, clusters, atomics, warp operations."""

import importlib
import struct
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from attnspec.emulator.launch import pack, three
from attnspec.emulator.machine.global_memory import GlobalMemory
from attnspec.emulator.machine.machine import Launch, Machine
from attnspec.emulator.numerics import faithful
from attnspec.emulator.translate.program import programs

from tests.emulator.silicon.maps import maps
from tests.emulator.silicon.probe import Buffer, Early, Im2col, Probe, TensorMap

FORMATS = {
    "UINT8": 0, "UINT16": 1, "UINT32": 2, "INT32": 3, "UINT64": 4, "INT64": 5, "FLOAT16": 6, "FLOAT32": 7, "FLOAT32_FTZ": 8,
    "FLOAT64": 9, "BFLOAT16": 10, "TFLOAT32": 7, "TFLOAT32_FTZ": 8,
}  # fmt: skip
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


@cache
def answers(group: str) -> dict[str, np.ndarray]:
    """All stored answers of a group, by PROBE/BUFFER."""
    with np.load(Path(__file__).parent / "data" / f"{group}.npz") as stored:
        return dict(stored)


def answered(group: str) -> list[Probe]:
    """The probes of a group that have an answer: the GPU refused others."""
    probes = importlib.import_module(f"tests.emulator.silicon.{group}").probes()
    known = {name.split("/")[0] for name in answers(group)}
    return [probe for probe in probes if probe.name in known]


def encode(tile: TensorMap, address: int) -> tuple[int, ...]:
    """The first 8 words of a descriptor as the driver writes them."""
    more = 5 - len(tile.sizes)
    strides = [*tile.strides, *((more) * [0])]
    sizes, box = ([one - 1 for one in given] + (5 - len(given)) * [0] for given in (tile.sizes, tile.box))
    steps = sum(step - 1 << 3 * axis for axis, step in enumerate(tile.steps))
    low, high = [stride >> 4 & 0xFFFFFFFF for stride in strides], [stride >> 36 for stride in strides]
    flags = len(tile.sizes) - 1 << 4 | FORMATS[tile.kind] << 7 | tile.interleave // 16 << 11 | SWIZZLES[tile.swizzle] << 13
    flags |= tile.fill_nan << 15 | tile.kind.startswith("TF") << 16 | tile.promotion << 17
    last = box[1] | box[2] << 8 | box[3] << 16 | box[4] << 24
    if isinstance(tile, Im2col):
        flags, last = flags | 1, corners(tile) | box[1] << 32
    return (
        address - (tile.before if isinstance(tile, Early) else 0) & (1 << 64) - 1,  # a heap may begin below what comes before
        flags | low[0] << 32,
        low[1] | low[2] << 32,
        low[3] | sum(one << 32 + 4 * axis for axis, one in enumerate(high)),
        sizes[0] | sizes[1] << 32,
        sizes[2] | sizes[3] << 32,
        sizes[4] | steps << 32 | box[0] << 56,
        last,
    )


def corners(tile: Im2col) -> int:
    """Both corners of an im2col descriptor, in 16 bits each."""
    bits = {1: 16, 2: 8, 3: 5}[len(tile.lower)]
    pairs = [(tile.lower, 0), (tile.upper, 16)]
    return sum((at & (1 << bits) - 1) << shift + bits * axis for corner, shift in pairs for axis, at in enumerate(corner))


def run(probe: Probe, seed: int | None) -> dict[str, np.ndarray]:
    """The buffers of a probe after its run in the emulator."""
    arrays = {one.name: one.initial.copy() for one in probe.buffers}
    given = []
    for one in probe.parameters:
        if isinstance(one, Buffer):
            given.append(arrays[one.name])
        else:
            given.append(struct.pack("<8Q", *encode(one, arrays[one.buffer].ctypes.data)) + bytes(64))
    (program,) = programs(probe.ptx).values()
    regions: list = []
    raw = pack(program, given, regions)
    launch = Launch(three((probe.grid,)), three((probe.block,)), three((probe.cluster,)), probe.dynamic_shared, raw)
    machine = Machine(program, launch, GlobalMemory(tuple(regions)), seed, multiply=faithful.multiply)
    machine.run()
    assert not machine.faults, machine.faults
    return arrays


REFUSED = {"tile_packed_16777216_to0_at_8_16777216_7"}  # by an H200: an illegal address
GROUPS = ("products", "warp_products", "tiles", "matrices", "warps", "clusters", "memory")
CASES = [pytest.param(group, probe, id=probe.name) for group in GROUPS for probe in answered(group)]


@pytest.mark.parametrize(("group", "probe"), CASES)
def test_the_emulator_gives_the_bits_of_an_h200(group, probe):
    found = run(probe, None)
    for name, wanted in answers(group).items():
        if name.startswith(f"{probe.name}/"):
            got = found[name.split("/")[1]].reshape(wanted.shape).view(wanted.dtype)
            assert np.array_equal(got.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["wgmma_bf16_wide_chain", "wgmma_registers_mn", "async_copies", "cluster_traffic"])
def test_the_bits_are_the_same_whenever_asynchronous_work_completes(name, seed):
    ((group, probe),) = ((group, probe) for group in GROUPS for probe in answered(group) if probe.name == name)
    found = run(probe, seed)
    for key, wanted in answers(group).items():
        if key.startswith(f"{name}/"):
            assert np.array_equal(found[key.split("/")[1]].reshape(wanted.shape), wanted)


@pytest.mark.parametrize("name", list(maps()))
def test_descriptors_are_the_words_that_the_driver_writes(name):
    wanted = [int(word) for word in answers("maps")[name][:8]]
    assert [hex(word) for word in encode(maps()[name], 0)] == [hex(word) for word in wanted]


def test_a_load_wholly_outside_the_tensor_touches_the_start_of_its_map():
    (refused,) = (probe for probe in importlib.import_module("tests.emulator.silicon.tiles").probes() if probe.name in REFUSED)
    with pytest.raises(AssertionError, match="out-of-bounds"):
        run(refused, None)
