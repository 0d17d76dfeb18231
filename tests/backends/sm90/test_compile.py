"""Every variant becomes a cubin for sm_90a on a machine without a GPU, within its registers."""

import re

import pytest
from attnspec.runtime.binary import Binary

from tests.backends.sm90.build import compiled, scheduled, with_head_dim
from tests.small_constants import VARIANTS, path_of

SPILL = re.compile(r"\b(?:LDL|STL)\b")
FAST = {"gemma2_local", "gpt_oss"}
# A few words of frame: see docs/notes/hopper.md, Left.
SPILLS = {"bigbird", "natten_2d", "swin_shifted"}
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


CAUSAL = "attention timed\nhead_dim {}\nmask = causal\n"
TABLE = "attention timed\nhead_dim {}\nlearned bias: f32[heads, 65]\nscore = score + bias[h, clamp(qpos - kv, -32, 32) + 32]\n"
WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x1"  # for the scores, while the product with V is under way


@pytest.mark.parametrize(
    ("text", "width"),
    [
        (CAUSAL, "64"),
        *(pytest.param(text, width, marks=pytest.mark.slow) for text in (CAUSAL, TABLE) for width in ("128", "256")),
    ],
)
def test_conversions_stand_among_exponentials(text: str, width: str) -> None:
    """In each trip with both products. Left to themselves LLVM and ptxas put all conversions behind all exponentials."""
    sass = compiled(text.format(width)).sass or ""
    trips = [trip.partition("HGMMA")[0] for trip in sass.split(WAIT)[1:]]
    trips = [trip for trip in trips if trip.count("MUFU.EX2") >= 32 and trip.count("F2FP") >= 16][-2:]
    assert len(trips) == 2
    for trip in trips:
        assert trip.partition("F2FP")[2].count("MUFU.EX2") > trip.count("MUFU.EX2") / 2
