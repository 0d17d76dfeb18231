"""Every variant becomes a cubin for sm_90a on a machine without a GPU, within its registers."""

import re

import pytest
from attnspec.runtime.binary import Binary

from tests.backends.sm90.build import compiled, scheduled, with_head_dim
from tests.small_constants import VARIANTS, path_of

SPILL = re.compile(r"\b(?:LDL|STL)\b")
FAST = {"gemma2_local", "gpt_oss"}
# 8 to 64 bytes of frame, 2 to 19 spills in a step's 1500 to 2000 instructions: see docs/notes/hopper.md, Left.
SPILLS = {"bigbird", "distance_bias", "graphormer", "natten_2d", "pair_bias", "swin_shifted", "t5_bias_causal"}
TRIPS = 4  # copies of a trip: first, masked, unmasked, last; of scores the last has none, of products the first
PRODUCTS = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k16\.f32\.\w+")


def assert_sound(text: str) -> Binary:
    schedule, binary = scheduled(text), compiled(text)
    assert binary.cubin.startswith(b"\x7fELF")
    assert ".target sm_90a" in binary.ptx
    assert binary.frame_bytes == 0
    width = -(-schedule.head_dim // 16)
    steps = width + schedule.dataflow.tile_kv // 16
    assert len(PRODUCTS.findall(binary.ptx)) == (TRIPS - 1) * steps
    return binary


def variants() -> list[object]:
    fails = pytest.mark.xfail(strict=True, raises=AssertionError)
    marks = {name: [pytest.mark.slow] * (name not in FAST) + [fails] * (name in SPILLS) for name in VARIANTS}
    return [pytest.param(name, marks=marks[name]) for name in VARIANTS]


@pytest.mark.parametrize("variant", variants())
def test_variant_compiles_without_spills(variant: str) -> None:
    assert_sound(str(path_of(variant)))


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["8", "40", "64", "96", "128, 64", "192, 128", "192", "256", "136, 200"])
def test_head_dimension_compiles(dims: str) -> None:
    assert_sound(with_head_dim(dims))


@pytest.mark.slow
def test_fp16_compiles() -> None:
    assert "f32.f16.f16" in assert_sound(with_head_dim("128", "fp16")).ptx
