"""The published schedule comes out of the passes, for every size, or a refusal in the words of the file."""

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.schedule import Arrivals, Schedule, Uses

from tests.lowering.by_hand import DOUBLED, analysed
from tests.lowering.schedule.drafts import channel

DIMS = [(8, 8), (16, 16), (64, 64), (72, 72), (96, 96), (128, 128), (128, 64), (64, 128), (8, 128), (192, 128)]


def placed(head_dim: int, head_dim_v: int) -> Schedule:
    variant = analysed(head_dim, head_dim_v)
    return place(draw(variant, "forward"), variant, LIMITS)


@pytest.mark.parametrize("dims", DIMS)
def test_every_head_dim_fits_and_is_verified(dims: tuple[int, int]) -> None:
    schedule = placed(*dims)
    assert schedule.shared_bytes <= LIMITS.shared_bytes
    assert schedule.placement("kv").depth >= 2


def test_tensor_order_is_the_published_one() -> None:
    program = placed(128, 128).role_of("mma_qk[0]").program
    assert [f"{step.operation}@{step.stage}" for step in program] == [
        "mma_pv_head[0]@1", "mma_pv_tail[0]@1", "mma_qk[0]@0", "mma_pv_head[1]@1", "mma_pv_tail[1]@1", "mma_qk[1]@0",
    ]  # fmt: skip


def test_loads_come_as_the_first_scores_need_them() -> None:
    program = placed(128, 128).role_of("load_k").program
    assert [step.operation for step in program] == ["load_q[0]", "load_k", "load_q[1]", "load_v"]


def test_score_operation_is_there_only_if_the_file_has_a_score() -> None:
    plain, scored = analysed(), analysed(score=DOUBLED)
    assert "score[0]" not in [step.operation for step in placed(128, 128).roles[0].program]
    program = place(draw(scored, "forward"), scored, LIMITS).roles[0].program
    assert [step.operation for step in program][:3] == ["load_s[0]", "score[0]", "mask[0]"]
    assert plain != scored


def test_keys_and_values_take_turns_in_one_ring() -> None:
    schedule = placed(128, 128)
    k, v = channel(schedule, "k"), channel(schedule, "v")
    assert (k.ring, v.ring, k.depth, v.depth) == ("kv", "kv", 3, 3)
    assert (k.uses, v.uses) == (Uses(2, 0, 0), Uses(2, 0, 1))
    assert k.empty == v.empty == Arrivals(1, "tensor")


def test_bytes_of_keys_and_values_are_those_of_their_own_boxes() -> None:
    schedule = placed(192, 128)
    assert (channel(schedule, "k").full.bytes, channel(schedule, "v").full.bytes) == (128 * 192 * 2, 128 * 128 * 2)
    assert channel(placed(72, 72), "k").full.bytes == 128 * 128 * 2


def test_row_statistics_share_a_ring_with_the_factors_of_the_steps() -> None:
    schedule = placed(128, 128)
    scale, row = channel(schedule, "scale[1]"), channel(schedule, "row[1]")
    assert (scale.ring, row.ring) == ("stats[1]", "stats[1]")
    assert scale.uses == row.uses == Uses(1, 1, 0)


def test_query_tiles_take_turns_in_staging_where_memory_is_short() -> None:
    schedule = placed(192, 128)
    assert schedule.placement("o_out").depth == 1
    assert [(item.ring, item.uses) for item in schedule.channels if item.buffer == "o_out"] == [
        ("out", Uses(0, 2, 0)),
        ("out", Uses(0, 2, 1)),
    ]


def test_reuse_that_other_channels_imply_has_no_empty_barrier() -> None:
    schedule = placed(128, 128)
    implied = {item.name.partition("[")[0]: item.implied_by for item in schedule.channels if item.empty is None}
    assert implied == {
        "s": "p_tail[1]", "p_head": "s[1]", "p_tail": "s[1]", "rescaled": "s[1], scale[1]", "o": "rescaled[1]",
    }  # fmt: skip


def test_probabilities_lie_over_their_own_scores() -> None:
    schedule = placed(128, 128)
    p, s = schedule.placement("p"), schedule.placement("s")
    assert p.overlays == "s"
    assert [p.start(copy) - s.start(copy) for copy in (0, 1)] == [64, 64]


@pytest.mark.parametrize(("head_dim", "head_dim_v"), [(256, 256), (192, 192), (136, 136), (128, 192), (256, 8)])
def test_wide_heads_take_one_query_tile_and_shorter_key_tiles(head_dim: int, head_dim_v: int) -> None:
    variant = analysed(head_dim, head_dim_v)
    schedule = place(draw(variant, "forward"), variant, LIMITS)
    assert (schedule.dataflow.query_tiles, schedule.dataflow.tile_kv) == (1, 64)
    assert schedule.placement("p").overlays is None  # beside one tile of scores there are columns enough


@pytest.mark.parametrize(("head_dim", "head_dim_v"), [(264, 264), (64, 512), (12, 12), (64, 20)])
def test_other_head_dims_are_refused_by_the_statement(head_dim: int, head_dim_v: int) -> None:
    variant = analysed(head_dim, head_dim_v)
    with pytest.raises(Unsupported, match="multiples of 8 up to 256") as refusal:
        place(draw(variant, "forward"), variant, LIMITS)
    assert refusal.value.statement.startswith(f"head_dim {head_dim}")
