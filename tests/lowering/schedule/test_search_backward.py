"""The published order of the backward comes out of the search."""

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.search import search

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.questions import program


@pytest.mark.parametrize("head_dim", [64, 128])
def test_published_backward_is_found(head_dim: int) -> None:
    """FA4, one CTA: S, then dK and dQ of the step before while that S is exponentiated, then dP and dV."""
    variant = analysed(head_dim)
    found = search(ask(draw(variant, "backward"), variant, LIMITS))
    assert found.timing.is_least
    assert program(found, "mma") == "mma_s mma_dk' mma_dq' mma_dp mma_dv"
    assert [role.name for role in found.solution.roles[:2]] == ["compute", "reduce"]


def test_backward_waits_longer_than_its_busiest_unit_works() -> None:
    """dP, dS, dQ, and the reading of dQ, whose columns the next dP takes, are a circle; shared memory alone allows 3328."""
    variant = analysed()
    asked = ask(draw(variant, "backward"), variant, LIMITS)
    assert search(asked).timing.interval == 3656 > asked.expected.total("shared") == 3328
