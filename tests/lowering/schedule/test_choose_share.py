"""The share of emulated exponentials follows the chip, the head dimension and the variant."""

from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed, ElementCost
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.choose_share import STEP, choose_tanh, step_bound
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.make_choices import emulated_share, make_choices
from attnspec.lowering.schedule.search import search

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.questions import bounded, question

B300 = replace(LIMITS, target="sm103", exponentials=32)
SOFTCAP = replace(bounded(), score_cost=ElementCost(mufu=1.0, fma=2.0, alu=0.0, loads=0.0))


def share(variant: Analysed, limits: Limits = LIMITS) -> float:
    graph = draw(variant, "forward")
    return emulated_share(graph, variant, make_choices(graph, variant, limits), limits)


def bound(variant: Analysed, emulated: float) -> float:
    graph = draw(variant, "forward")
    choices = replace(make_choices(graph, variant, LIMITS), emulated_share=emulated)
    return step_bound(graph, (variant.spec.head_dim, variant.spec.head_dim_v), LIMITS, price(graph, variant, choices, LIMITS))


@pytest.mark.parametrize("variant", [analysed(64), analysed(128), analysed(192, 128), SOFTCAP])
def test_nothing_is_emulated_where_the_special_function_unit_is_twice_as_fast(variant: Analysed) -> None:
    assert share(variant) > 0
    assert share(variant, B300) == 0


@pytest.mark.parametrize("variant", [analysed(64), analysed(128), SOFTCAP])
def test_share_is_the_least_that_is_as_good_as_the_best(variant: Analysed) -> None:
    found = share(variant)
    assert bound(variant, found) <= 1.01 * min(bound(variant, at * STEP) for at in range(int(found / STEP) + 1))
    assert bound(variant, found - STEP) > 1.01 * bound(variant, found)


def test_more_is_emulated_where_exponentials_bound_a_step() -> None:
    assert share(analysed(128)) == 0.25
    assert share(SOFTCAP) > share(analysed(64)) > share(analysed(128))


def test_score_that_fills_the_fma_pipe_leaves_no_room_for_exponentials() -> None:
    dear = replace(bounded(), score_cost=ElementCost(mufu=0.0, fma=16.0, alu=0.0, loads=0.0))
    assert share(dear) < share(SOFTCAP)


@pytest.mark.parametrize("variant", [analysed(64), analysed(128), SOFTCAP])
def test_bound_that_a_share_is_judged_by_is_what_the_search_reaches(variant: Analysed) -> None:
    found = search(question(variant, emulated_share=share(variant)))
    assert bound(variant, share(variant)) <= found.timing.interval <= 1.01 * bound(variant, share(variant))


def test_emulation_takes_issue_slots_and_the_fma_pipe_from_others() -> None:
    none, some = (question(analysed(), emulated_share=at).expected for at in (0.0, 0.25))
    assert some.total("mufu") == 0.75 * none.total("mufu")
    assert some.total("fma") - none.total("fma") == pytest.approx(2 * 128 * 0.25 * 7.45)
    assert some.total("issue") - none.total("issue") == pytest.approx(2 * 128 * 0.25 * 5)


def test_exponentials_take_as_long_as_the_busier_of_both_pipes() -> None:
    half, all_of_them = (question(analysed(), emulated_share=at).expected.of("exp_head[0]") for at in (0.5, 1.0))
    assert all_of_them.hold > half.hold
    assert all_of_them.hold == pytest.approx(96 * (1 + 7.45) + 48)


def test_tanh_stays_on_the_special_function_unit() -> None:
    assert choose_tanh(LIMITS) == choose_tanh(B300) == "hardware"
    assert choose_tanh(replace(LIMITS, exponentials=8)) == "polynomial"


def test_softcap_s_busiest_pipe_has_less_to_do_than_in_fa4() -> None:
    """FA4 at D = 128: 1,864 MUFU instructions of a warp for two tiles (counted from its PTX), two cycles each."""
    prices = question(SOFTCAP, emulated_share=share(SOFTCAP)).expected
    assert 3728 / max(prices.total("mufu"), prices.total("fma")) > 1.15
