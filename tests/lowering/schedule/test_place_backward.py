"""The published backward schedule comes out of the passes, or a refusal in the words of the file."""

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.schedule import Schedule

from tests.lowering.by_hand import analysed
from tests.lowering.schedule.drafts import channel

DIMS = [(8, 8), (40, 40), (64, 64), (96, 96), (128, 128), (128, 64), (64, 128)]


def placed(head_dim: int, head_dim_v: int) -> Schedule:
    variant = analysed(head_dim, head_dim_v)
    return place(draw(variant, "backward"), variant, LIMITS)


@pytest.mark.parametrize("dims", DIMS)
def test_every_head_dim_fits_and_is_verified(dims: tuple[int, int]) -> None:
    schedule = placed(*dims)
    assert schedule.shared_bytes <= LIMITS.shared_bytes
    assert schedule.placement("q").depth >= 2


def test_tensor_order_is_the_published_one() -> None:
    program = placed(128, 128).role_of("mma_s").program
    assert [(step.operation, step.stage) for step in program] == [
        ("mma_s", 0), ("mma_dk", 1), ("mma_dq", 1), ("mma_dp", 0), ("mma_dv", 0),
    ]  # fmt: skip


def test_query_gradient_shares_columns_only_where_there_is_no_room() -> None:
    narrow, wide = placed(64, 64), placed(128, 128)
    assert (narrow.placement("dq").overlays, wide.placement("dq").overlays) == (None, "dp")
    assert wide.tensor_columns == 512


def test_next_dp_waits_for_the_query_gradient_in_its_columns() -> None:
    drained = channel(placed(128, 128), "drained")
    assert (drained.producer, drained.consumers, drained.distance) == ("load_dq_0", ("mma_dp",), 1)


def test_accumulators_are_not_rewritten_before_they_are_stored() -> None:
    schedule = placed(128, 128)
    assert all(channel(schedule, name).empty is not None for name in ("dk", "dv"))


@pytest.mark.parametrize("dims", [(136, 128), (192, 128), (256, 256), (64, 256), (256, 64)])
def test_wide_heads_are_done_in_two_parts_of_64_queries_a_step(dims: tuple[int, int]) -> None:
    schedule = placed(*dims)
    assert (schedule.dataflow.tile_q, schedule.dataflow.tile_kv) == (64, 128)
    assert schedule.placement("dk").size <= 128
    assert schedule.placement("dq").overlays is None
    assert schedule.shared_bytes <= LIMITS.shared_bytes


def test_with_one_slot_for_q_the_next_scores_come_after_the_key_gradient() -> None:
    schedule = placed(256, 256)
    program = schedule.role_of("mma_s").program
    assert schedule.placement("q").depth == 1
    assert {step.stage for step in program} == {0}


def test_padding_of_a_tile_brings_no_bytes() -> None:
    schedule = placed(192, 128)
    assert schedule.placement("k").size == 256 * 128 * 2
    assert channel(schedule, "k").full.bytes == 192 * 128 * 2


def test_head_dim_beyond_256_is_refused_with_the_statement() -> None:
    variant = analysed(320, 128)
    with pytest.raises(Unsupported, match="head_dim 320, 128"):
        place(draw(variant, "backward"), variant, LIMITS)
