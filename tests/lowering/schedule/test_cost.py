"""Unit totals equal the published rooflines, and a variant's own instructions are counted."""

from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed, ElementCost
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.make_choices import make_choices
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.prices import Prices

from attnspec.language.expr import Truth
from tests.lowering.by_hand import DOUBLED, analysed


def priced(variant: Analysed, *, masked: bool = False) -> Prices:
    graph = draw(variant, "forward")
    choices = replace(make_choices(graph, variant, LIMITS), emulated_share=0.0)
    return price(graph, variant, choices, LIMITS, masked=masked)


@pytest.mark.parametrize(("unit", "cycles"), [("tensor", 2048), ("mufu", 2048), ("shared", 1536)])
def test_totals_are_the_published_roofline(unit: str, cycles: int) -> None:
    """FA4 paper, table 1: tile 256 x 128 x 128."""
    assert priced(analysed()).total(unit) == cycles


def test_half_the_head_dim_leaves_the_exponentials_the_bottleneck() -> None:
    prices = priced(analysed(64))
    assert (prices.total("tensor"), prices.total("mufu")) == (1024, 2048)
    assert prices.bottleneck == "mufu"


def test_score_of_the_file_is_counted_every_step() -> None:
    softcap = ElementCost(mufu=1.0, fma=2.0, alu=0.0, loads=0.0)
    plain, capped = priced(analysed()), priced(analysed(score=DOUBLED, score_cost=softcap))
    assert capped.total("mufu") == 2 * plain.total("mufu")
    assert capped.total("fma") - plain.total("fma") == 2 * 2 * 128


def test_mask_is_counted_only_in_masked_steps() -> None:
    variant = analysed(mask=Truth(True), mask_cost=ElementCost(0.0, 0.0, 3.0, 0.0))
    assert priced(variant).total("alu") == priced(analysed()).total("alu")
    assert priced(variant, masked=True).total("alu") - priced(variant).total("alu") == 2 * 3 * 256


def test_expensive_score_lengthens_the_step() -> None:
    plain, dear = analysed(), analysed(score=DOUBLED, score_cost=ElementCost(0.0, 4.0, 0.0, 0.0))
    intervals = [place(draw(variant, "forward"), variant, LIMITS).proof.interval for variant in (plain, dear)]
    assert intervals[1] - intervals[0] == 4 * 128
