"""The Hopper backward's kernels, run in the emulator through autograd, against the float64 oracle."""

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks.gradient_output import dq_offset
from attnspec.lowering.dataflow.backward_in_registers import PART, RegisterShape, register_shape
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape

import attnspec
from attnspec import stages
from tests.small_constants import SMALL, VARIANTS, path_of

QUICK = {"softcap"}
SHAPES = [Shape(1, 2, 1, 200, 300), Shape(1, 2, 2, 4, 2)]  # ragged tiles, two heads a key head; rows that see nothing
MANY_HEADS = 8
NARROW = ("8", "24", "40", "64", "72", "96", "120", "128", "64, 128", "128, 64")
WIDE = ("136", "192", "256", "192, 128", "64, 256", "256, 64", "200, 128", "136, 200")  # done in two parts
LEARNED = "attention wide\nhead_dim {}\nlearned bias: f32[heads, 65]\nscore = score + bias[h, clamp(q - kv, -32, 32) + 32]\n"


def assert_right(attention: attnspec.Attention, shape: Shape) -> None:
    rows = compare(attention, draw_inputs(attention.spec, fit_shape(attention.spec, shape), 0))
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def variants() -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


@pytest.mark.parametrize("variant", variants())
def test_emulated_gradients_agree_with_the_oracle(variant: str) -> None:
    attention = attnspec.build(path_of(variant), target="sm90", on="emulator", **SMALL.get(variant, {}))
    if (attention.spec.group or 1) > MANY_HEADS:
        assert_right(attention, Shape(1, 1, 1, 20, 30))
        return
    for shape in SHAPES:
        assert_right(attention, shape)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [*NARROW, *WIDE])
def test_gradients_agree_for_every_width(dims: str) -> None:
    text = f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n"
    assert_right(attnspec.build(text, target="sm90", on="emulator"), Shape(1, 2, 1, 130, 200))


def test_gradients_of_keys_that_no_query_sees_are_zero() -> None:
    attention = attnspec.build("attention early\nhead_dim 64\nmask = kv < 40\n", target="sm90", on="emulator")
    q, k, v = (torch.randn(1, 150, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3))
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    _, dk, dv = torch.autograd.grad(attention(*leaves).float().square().sum(), leaves)
    assert dv[0, :40].any(dim=-1).all()
    assert not dk[0, 40:].any()
    assert not dv[0, 40:].any()


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "96", "256"])
def test_single_visible_key_has_no_gradient_of_query_and_key(dims: str) -> None:
    attention = attnspec.build(f"attention own\nhead_dim {dims}\nmask = kv == q\n", target="sm90", on="emulator")
    leaves = [torch.randn(1, 140, 1, int(dims)).bfloat16().requires_grad_() for _ in range(3)]
    upstream = torch.randn(1, 140, 1, int(dims)).bfloat16()
    dq, dk, dv = torch.autograd.grad(attention(*leaves), leaves, upstream)
    assert not dq.any()
    assert not dk.any()
    assert torch.allclose(dv.float(), upstream.float(), rtol=2.0**-7)


def test_a_step_ends_before_the_next_begins_and_products_overlap_within_it() -> None:
    for name in ("dense", "causal", "softcap"):
        analysed = stages.analyse(stages.read(path_of(name)))
        schedule = stages.place(stages.draw(analysed, "backward", "sm90"), analysed, "sm90")
        program = [(step.operation, step.stage) for role in schedule.roles if role.kind == "attend" for step in role.program]
        order = [name for name, _ in program]
        assert all(stage == 0 for _, stage in program)
        assert order.index("mma_dp") < order.index("await_s")
        assert order.index("read_lse") < order.index("mma_s")
        assert order.index("share_ds") < order.index("mma_dv") < order.index("mma_dq")
        assert order.index("mma_dq") < order.index("mma_dk") < order.index("stage_dq_0") < order.index("await_dk")


def test_dq_comes_before_dk_unless_that_keeps_the_only_slot_of_q() -> None:
    """What is left of dK hides how dQ is staged; heads of 256 load the next Q once dK has read this one."""
    orders = {}
    for dims in ("64", "128", "256"):
        analysed = stages.analyse(stages.read(f"attention plain\nhead_dim {dims}\n"))
        schedule = stages.place(stages.draw(analysed, "backward", "sm90"), analysed, "sm90")
        order = [step.operation for step in schedule.role_of("mma_dq").program]
        orders[dims] = order.index("mma_dq") < order.index("mma_dk")
    assert orders == {"64": True, "128": True, "256": False}


def test_nothing_is_read_from_shared_memory_behind_products_that_were_begun_for_later() -> None:
    """A warp's loads wait in the queue of its products: delta is read first of a step, or with nothing under way."""
    for name, before, after in (("causal", "read_lse", "mma_s"), ("softcap", "exp", "await_dp")):
        analysed = stages.analyse(stages.read(path_of(name)))
        schedule = stages.place(stages.draw(analysed, "backward", "sm90"), analysed, "sm90")
        order = [step.operation for step in schedule.role_of("read_delta").program]
        assert order.index(before) < order.index("read_delta") < order.index(after) < order.index("mma_dv")


def shape_of(text: str) -> RegisterShape:
    return register_shape(stages.analyse(stages.read(f"attention plain\n{text}\n")))


def test_no_more_rows_are_read_ahead_than_registers_hold() -> None:
    """Where a step has 80 queries, what was found not to spill."""
    found = {"64": (9, 0, 3), "32": (16, 9, 16), "128": (5, 0, 1), "192, 128": (8, 6, 8)}
    for dims, pairs in found.items():
        shape = shape_of(f"head_dim {dims}")
        assert (shape.lse_ahead, shape.early_delta, shape.late_delta) == pairs


def test_steps_are_longer_where_that_saves_more_than_it_wastes() -> None:
    window = "head_dim 128\nmask = kv <= qpos and kv > qpos - {}"
    learned = "head_dim 128\nlearned bias: f32[heads]\nscore = score + bias[h]"
    ids = "head_dim 128\ninput at: i32[batch, len_q]\nmask = at[b, q] <= kv"
    found = {window.format(1024): 64, window.format(4096): 80, learned: 64, ids: 64, "head_dim 136": 64}
    found |= {"head_dim 72": 80, "head_dim 64": 128, "head_dim 64, 128": 80, "head_dim 128\nmask = causal": 80}
    assert {text: shape_of(text).tile_q for text in found} == found


def test_a_warp_stores_dq_in_one_run_and_threads_fill_all_of_it() -> None:
    for queries in (64, 80):
        plan = cast(BackwardPlan, SimpleNamespace(tile_q=queries))
        warps = [
            [dq_offset(plan, block, octet, lane) for lane in range(32)] for block in range(8) for octet in range(queries // 8)
        ]
        assert all(own == list(range(own[0], own[0] + 512, 16)) for own in warps)
        assert sorted(own[0] for own in warps) == list(range(0, queries * 128 * 4, 512))


def test_parts_begin_with_columns_that_were_loaded() -> None:
    for dims, step in (("136", 64), ("192, 128", 64), ("256", 128)):
        analysed = stages.analyse(stages.read(f"attention wide\nhead_dim {dims}\n"))
        schedule = stages.place(stages.draw(analysed, "backward", "sm90"), analysed, "sm90")
        loaded = schedule.dataflow.buffer("k").size // (schedule.dataflow.tile_kv * schedule.element_bytes)
        assert loaded - PART == step
        assert schedule.shared_bytes <= stages.limits_of("sm90").shared_bytes


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["256", "64, 256"])
def test_a_learned_tensor_is_counted_in_one_part_alone(dims: str) -> None:
    assert_right(attnspec.build(LEARNED.format(dims), target="sm90", on="emulator"), Shape(1, 2, 1, 70, 150))
