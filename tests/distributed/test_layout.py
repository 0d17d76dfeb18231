"""Layouts: every position on one rank, in the shard that the name promises."""

import pytest
import torch

from attnspec.distributed.layout import contiguous, layout_from, layout_of, striped, zigzag
from attnspec.distributed.pieces import pieces
from attnspec.errors import ArgumentError


@pytest.mark.parametrize("length", [0, 1, 3, 8, 37, 300])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["contiguous", "zigzag", "striped:7", "striped:1"])
def test_every_position_is_on_one_rank(length, ranks, kind):
    layout = layout_of(kind, length, ranks)
    assert sorted(layout.order.tolist()) == list(range(length))
    assert sum(layout.counts) == length
    assert [len(layout.positions(rank)) for rank in range(ranks)] == list(layout.counts)


@pytest.mark.parametrize("length", [1, 5, 9, 10, 16, 17])
def test_contiguous_cuts_as_torch_chunks(length):
    chunks = [chunk.tolist() for chunk in torch.arange(length).chunk(4)]
    layout = contiguous(length, 4)
    assert [layout.positions(rank).tolist() for rank in range(len(chunks))] == chunks
    assert layout.counts[len(chunks) :] == (0,) * (4 - len(chunks))


def test_zigzag_gives_each_rank_a_run_from_either_end():
    assert [zigzag(8, 2).positions(rank).tolist() for rank in range(2)] == [[0, 1, 6, 7], [2, 3, 4, 5]]
    assert len(zigzag(8, 2).spans) == 3  # the runs of the last rank touch


def test_stripes_are_dealt_in_turn():
    assert striped(7, 2, 2).positions(0).tolist() == [0, 1, 4, 5]


def test_any_runs_make_a_layout():
    layout = layout_from("mine", [(3, 1), (0, 0), (2, 0), (1, 1)], 2)
    assert [layout.positions(rank).tolist() for rank in range(2)] == [[3, 4], [0, 1, 2, 5]]


def test_packed_sequences_are_cut_at_their_ends():
    found = pieces(contiguous(10, 2), [0, 3, 3, 7, 10])
    assert [(at.sequence, at.first, at.last, at.rank, at.row) for at in found] == [
        (0, 0, 3, 0, 0), (2, 0, 2, 0, 3), (2, 2, 4, 1, 0), (3, 0, 3, 1, 2)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["zig", "striped", "striped:0", "contiguous:3", 3])
def test_an_unknown_layout_is_an_error(kind):
    with pytest.raises(ArgumentError, match="layout: "):
        layout_of(kind, 10, 2)


def test_a_layout_of_another_length_is_an_error():
    with pytest.raises(ArgumentError, match="made for 10 positions over 2 ranks, but there are 11 over 2"):
        layout_of(contiguous(10, 2), 11, 2)
