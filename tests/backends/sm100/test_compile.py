"""Every variant becomes a cubin for sm_100a on a machine without a GPU, within its registers."""

import re

import pytest
from attnspec.lowering.analysis.packing import packing

from tests.backends.sm100 import census
from tests.backends.sm100.build import compiled, scheduled, with_head_dim
from tests.small_constants import VARIANTS, path_of

PLAIN_EXPONENTIALS = {
    "dense",
    "causal",
    "gqa",
    "streaming_llm",
    "mla",
    "strided",
    "softcap",
}  # no exp, sink or load in score and mask
ADDRESS_BYTES = 8  # that of shared memory, which relative_bias and forgetting keep in a frame there
SPILL = re.compile(r"\b(?:LDL|STL)\b")


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_compiles_without_spills_to_what_its_schedule_says(variant: str) -> None:
    analysed, schedule = scheduled(str(path_of(variant)))
    packs = packing(analysed).is_allowed
    binary = compiled(str(path_of(variant)), sass=True)
    found = binary.census()
    assert binary.cubin.startswith(b"\x7fELF")
    assert ".target sm_100a" in binary.ptx
    assert binary.frame_bytes == 0
    assert not SPILL.search(binary.sass or "")
    assert found["tcgen05.mma.cta_group::1.kind::f16"] == census.tensor_instructions(schedule)
    assert found["mbarrier.init.shared.b64"] == census.barriers(schedule)
    assert total(found, "tcgen05.commit") == census.commits(schedule)
    assert total(found, "cp.async.bulk.tensor.4d.shared::cta.global") == census.loads(schedule, packs)
    assert total(found, "cp.async.bulk.tensor.4d.global.shared::cta") == census.stores(schedule, packs)
    if variant in PLAIN_EXPONENTIALS:
        assert total(found, "ex2.approx") == census.exponentials(schedule)
        assert found["tcgen05.ld.sync.aligned.32x32b.x32.b32"] == census.score_loads(schedule)


def total(found: dict[str, int], start: str) -> int:
    return sum(count for name, count in found.items() if name.startswith(start))


@pytest.mark.parametrize("dims", ["8", "40", "64", "96", "128, 64", "64, 128", "256", "136, 200"])
def test_head_dimension_compiles(dims: str) -> None:
    assert compiled(with_head_dim(dims)).frame_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["document_causal", "document_packing", "relative_bias", "t5_bias_causal", "forgetting"])
def test_staged_values_beside_heads_of_192_compile_and_spill_an_address_at_most(variant: str) -> None:
    text = re.sub(r"(?m)^head_dim.*$", "head_dim 192, 128", path_of(variant).read_text())
    assert compiled(text).frame_bytes <= ADDRESS_BYTES


@pytest.mark.parametrize("variant", ["gemma2_local", "t5_bias"])
def test_fp16_compiles(variant: str) -> None:
    text = path_of(variant).read_text().replace("head_dim", "dtype fp16\nhead_dim", 1)
    binary = compiled(text, sass=True)
    assert binary.frame_bytes == 0
    assert total(binary.census(), "cvt.rn.f16x2.f32") > 0
