"""The variants that come with attnspec."""

import pytest

from attnspec import variants
from attnspec.language.load import read_spec


@pytest.mark.parametrize("name", variants.names())
def test_a_variant_is_a_spec_of_its_name_with_a_description_and_a_source(name: str) -> None:
    assert read_spec(variants.path(name)).name == name
    description, source = variants.describe(name)
    first, second = variants.path(name).read_text("utf-8").splitlines()[:2]
    assert first == f"# {description}" and second == f"# source: {source}" and description.endswith(".")


def test_the_variants_people_ask_for_are_there() -> None:
    wanted = """dense causal causal_top_left sliding_window_causal sliding_window softcap gemma2_local gemma2_global gemma3_local
        prefix_lm image_span document_packing chunked dilated streaming_llm gpt_oss alibi t5_bias relative_bias pair_bias
        head_temperature tree_mask natten_2d strided mla gqa mqa differential distance_score"""
    assert set(wanted.split()) <= set(variants.names())


def test_an_unknown_variant_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match="gemma2_local"):
        variants.path("gemma4")
