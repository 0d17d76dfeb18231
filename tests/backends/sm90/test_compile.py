"""Every variant becomes a cubin for sm_90a on a machine without a GPU, within its registers."""

import re

import pytest
from attnspec.runtime.binary import Binary

from tests.backends.sm90.build import compiled, scheduled, with_head_dim
from tests.small_constants import VARIANTS, path_of

SPILL = re.compile(r"\b(?:LDL|STL)\b")
FAST = {"gemma2_local", "gpt_oss"}
# A few words of frame: see docs/notes/hopper.md, Left.
SPILLS = {"bigbird", "graphormer", "swin_shifted"}
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
WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x{}"  # until so many products are under way


@pytest.mark.parametrize(
    ("text", "width"),
    [
        (CAUSAL, "64"),
        *(pytest.param(text, width, marks=pytest.mark.slow) for text in (CAUSAL, TABLE) for width in ("128", "256")),
    ],
)
def test_exponentials_stand_on_both_sides_of_the_wait_for_the_product(text: str, width: str) -> None:
    """A third of them beside the product, the rest beside conversions, in each trip with both products. Left to itself ptxas put
    the wait before all of them in some kernels, and conversions behind all of them in others."""
    sass = compiled(text.format(width)).sass or ""
    trips = [trip.partition(WAIT.format(0)) for trip in sass.split(WAIT.format(1))[1:]]
    trips = [(early, late.partition("HGMMA")[0]) for early, _, late in trips if "HGMMA" not in early and "MUFU.EX2" in late]
    assert len(trips) == 2
    for early, late in trips:
        before, after = (part.count("MUFU.EX2") for part in (early, late.partition("BRA ")[0]))
        assert 0.25 < before / (before + after) < 0.4
        assert "F2FP" not in early
