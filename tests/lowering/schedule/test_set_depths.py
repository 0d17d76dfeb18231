"""Depths fill shared memory, or say how much is missing."""

from dataclasses import replace

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place_buffers import place_buffers
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.set_depths import set_depths

from tests.lowering.by_hand import analysed


@pytest.mark.parametrize(("dims", "slots"), [((128, 128), 3), ((64, 64), 10), ((192, 128), 2), ((256, 256), 3)])
def test_stream_gets_what_is_left(dims: tuple[int, int], slots: int) -> None:
    assert set_depths(draw(analysed(*dims), "forward"), LIMITS, "head_dim")["kv"] == slots


def test_refusal_names_bytes_needed_and_there() -> None:
    small = replace(LIMITS, shared_bytes=100 * 1024)
    with pytest.raises(Unsupported, match=r"need 166912 bytes .* has 102400"):
        set_depths(draw(analysed(), "forward"), small, "head_dim 128")


def test_refusal_names_columns_needed_and_there() -> None:
    graph = draw(analysed(256), "forward")
    with pytest.raises(Unsupported, match="need 640 columns of tensor memory, sm100 has 512"):
        place_buffers(graph, {buffer.name: 2 for buffer in graph.buffers}, LIMITS, "head_dim 256")
