"""Hopper's forward out of the same search: FlashAttention-3's order, registers that its warps can have, rings that fit."""

import pytest
from attnspec.lowering.schedule.schedule import Role

from attnspec import stages
from tests.backends.sm90.build import TARGET, scheduled, with_head_dim
from tests.small_constants import VARIANTS, path_of

DIMS = ("8", "40", "64", "96", "128", "192, 128", "128, 64", "136, 200", "256")


def attending(text: str) -> Role:
    return next(role for role in scheduled(text).roles if role.kind == "attend")


def test_next_scores_and_this_product_run_beside_the_softmax_as_in_flash_attention_3() -> None:
    program = [(step.operation, step.stage) for step in attending(with_head_dim("128")).program]
    assert program[:3] == [("mma_qk", 0), ("mma_pv", 1), ("await_s", 0)]
    order = [name for name, _ in program]
    assert order.index("exp") < order.index("await_o") < order.index("convert")


def test_warpgroups_that_multiply_hold_the_registers() -> None:
    narrow, wide = (scheduled(with_head_dim(dims)).roles for dims in ("64", "128"))
    assert {role.name: (len(role.warps), role.registers) for role in wide if role.program} == {
        "attend": (8, 240),
        "load": (1, 24),
        "epilogue": (1, 24),
    }
    assert {role.name: (len(role.warps), role.registers) for role in narrow if role.program}["attend"] == (12, 160)


@pytest.mark.parametrize("dims", DIMS)
def test_rings_of_a_head_dimension_hold_two_steps(dims: str) -> None:
    schedule = scheduled(with_head_dim(dims))
    depths = {item.buffer: item.depth for item in schedule.placements}
    assert depths["kv"] >= 4 if "kv" in depths else min(depths["k"], depths["v"]) >= 2
    assert schedule.tensor_columns == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_has_a_verified_schedule(variant: str) -> None:
    schedule = scheduled(str(path_of(variant)))
    assert schedule.target == "sm90"
    assert schedule.proof.assumptions == ()


def test_probabilities_that_stay_in_registers_are_handed_over_in_no_parts() -> None:
    assert scheduled(with_head_dim("128")).choices.probability_split == 0


@pytest.mark.parametrize(
    ("variant", "queries"),
    [("t5_bias", 64), ("gated_bias", 64), ("relative_bias", 96), ("sliding_window", 128), ("gpt_oss", 128)],
)
def test_a_backward_step_has_fewer_queries_where_registers_go_to_loads_and_shares(variant: str, queries: int) -> None:
    analysed = stages.analyse(stages.read(path_of(variant)))
    assert stages.draw(analysed, "backward", "sm90").tile_q == queries


@pytest.mark.parametrize(
    ("mask", "grows"),
    [
        ("causal", True),
        ("kv >= qpos", True),
        ("kv <= max(qpos, 100)", True),
        ("causal or kv < 64", True),
        ("causal and qpos - kv < 1024", False),
        ("causal and (qpos - kv < 1024 or kv < 4)", False),
        ("qpos // 64 == kv // 64", False),
        ("kv < 64", False),
    ],
)
def test_tiles_grow_that_visit_more_of_longer_sequences(mask: str, grows: bool) -> None:
    analysed = stages.analyse(stages.read(f"attention t\nhead_dim 64\nmask = {mask}\n"))
    assert stages.place(stages.draw(analysed, "backward", TARGET), analysed, TARGET).choices.grows is grows
