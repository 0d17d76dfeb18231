"""The simulation of scaling: what must hold whatever the rates are."""

from xml.etree import ElementTree

import pytest

from attnspec.distributed import simulate
from attnspec.distributed.estimate import H200


@pytest.mark.parametrize("variant", simulate.VARIANTS)
def test_no_number_of_gpus_is_more_than_fully_used(variant):
    found = [point for ranks in (2, 8) for point in simulate.points(variant, 2**17, ranks, H200)]
    assert all(0 < point.efficiency <= 1.0001 for point in found)
    assert len({round(point.alone, 9) for point in found}) == 1  # the work does not depend on how it is cut


def test_a_window_sends_as_much_over_few_gpus_as_over_many():
    sent = {
        point.estimates[0].sent
        for ranks in (4, 16)
        for point in simulate.points("sliding_window_causal", 2**18, ranks, H200)
        if (point.layout, point.strategy) == ("contiguous", "ring")
    }
    assert sent == {4096 * 4096}  # a window of rows, 8 heads of 128 + 128 in 16 bits


def test_the_command_prints_a_table_and_draws_a_picture(tmp_path, capsys):
    picture = tmp_path / "scaling.svg"
    simulate.main(["--length", "524288", "--ranks", "2", "4", "--variants", "causal", "--svg", str(picture)])
    said = capsys.readouterr().out
    assert "| causal, GPUs | fastest |" in said and "| 4 | ring, zigzag | 100% |" in said
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
