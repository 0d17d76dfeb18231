"""Calls over processes inside torch.compile(fullgraph=True): as eager ones, bit for bit, and as one process."""

from dataclasses import replace

import pytest

from tests.distributed import compiled, models
from tests.distributed.cases import Case, outcome
from tests.distributed.test_variants import FEW, LONG, SHORT, name_of

SLOW = pytest.mark.slow
FAST = Case("gpt_oss", SHORT, "ring", "zigzag", backend="aot_eager")  # a sink and a gradient of it, key heads fewer than heads


def test_a_compiled_call_agrees_with_the_oracle_and_has_the_bits_of_an_eager_one(processes):
    agree(processes, FAST, 2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(("size", "case"), FEW, ids=name_of)
def test_compiled_calls_agree_with_the_oracle_and_have_the_bits_of_eager_ones(processes, size, case, backend):
    agree(processes, replace(case, backend=backend), size)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["causal", "gemma2_local", "gpt_oss", "t5_bias", "document_causal", "packed_varlen"])
@pytest.mark.parametrize("strategy", ["ring", "all_gather", "ulysses"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_compiled_strategies_agree_with_the_oracle(processes, variant, strategy, size):
    agree(processes, Case(variant, LONG, strategy, "zigzag", backend="aot_eager"), size)


def agree(processes, case, size):
    wrong, found, _ = outcome(processes, case, size)
    assert wrong == []
    eager = outcome(processes, replace(case, backend=None), size)[1]
    assert all(found[name].equal(eager[name]) for name in eager)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=SLOW)])
def test_calls_amid_other_work_and_in_checkpoints_have_the_bits_of_eager_ones(processes, backend):
    assert processes.run(2, compiled.in_between, backend) == [(True, True)] * 2


def test_every_node_of_a_compiled_call_is_printed_in_one_line(processes):
    nodes = processes.run(2, compiled.printed)[0]
    assert sum("torch.ops.attnspec." in node for node in nodes) == 2
    assert [node for node in nodes if len(node.splitlines()) > 1] == []


@pytest.mark.slow
def test_other_lengths_do_not_compile_again(processes):
    assert processes.run(2, compiled.lengths) == [([True] * 3, 1)] * 2


def test_layouts_and_plans_of_other_batches_do_not_compile_again(processes):
    """And a plan that was given is not made anew, in the backward neither."""
    assert processes.run(2, compiled.batches) == [([True] * 3, 1, 0)] * 2


@pytest.mark.slow
def test_dtensors_go_through_a_compiled_call(processes):
    assert processes.run(2, compiled.placed) == [True] * 2


@pytest.mark.slow
@pytest.mark.parametrize("is_outside", [False, True])
def test_a_compiled_model_under_fsdp_follows_the_losses_of_one_process(processes, is_outside):
    found = processes.run(2, compiled.wrapped, is_outside)
    assert found[0] == pytest.approx(models.losses_alone()[:3], rel=1e-3)


def test_a_graph_finds_its_context_again_when_nobody_holds_it(processes):
    assert processes.run(2, compiled.without_context) == [(True, True, True)] * 2
