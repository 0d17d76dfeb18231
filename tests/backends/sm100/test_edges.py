"""Pipelines come from the graph: what is added there is emitted, and compiles."""

import re

from attnspec.lowering.dataflow.graph import Value

from tests.backends.sm100.build import compiled, forward_text, with_head_dim

CAUSAL = with_head_dim("64")
TURN = Value("exp_tail[0]", "exp_head[1]", None)  # softmax1 exponentiates only after softmax0 has
BACK = Value("exp_tail[1]", "exp_head[0]", None, distance=1)  # and softmax0 only after softmax1's step before


def pipes(text: str) -> list[str]:
    return re.findall(r"^    Pipe\('([^']+)'", text, re.MULTILINE)


def test_edge_between_roles_becomes_a_pipe() -> None:
    before, after = pipes(forward_text(CAUSAL)), pipes(forward_text(CAUSAL, TURN))
    assert [name for name in after if name not in before] == ["exp_tail_0_to_exp_head_1"]


def test_edge_adds_its_barriers_to_the_ptx() -> None:
    before, after = compiled(CAUSAL).census(), compiled(CAUSAL, TURN).census()
    barriers = len(re.findall(r"Pipe\('exp_tail_0_to_exp_head_1'.*empty=None", forward_text(CAUSAL, TURN))) or 2
    assert after["mbarrier.init.shared.b64"] - before["mbarrier.init.shared.b64"] == (1 if barriers == 1 else 2)
    assert after["mbarrier.arrive.shared.b64"] > before["mbarrier.arrive.shared.b64"]
    assert after["mbarrier.try_wait.parity.shared.b64"] > before["mbarrier.try_wait.parity.shared.b64"]


def test_edge_to_the_next_step_waits_for_the_step_before() -> None:
    line = next(line for line in forward_text(CAUSAL, TURN, BACK).split("\n") if line.strip().startswith("Pipe('exp_tail_1_to"))
    assert "distance=1" in line
    assert compiled(CAUSAL, TURN, BACK).frame_bytes == 0


def test_edge_inside_a_role_needs_no_pipe() -> None:
    inside = Value("exp_head[0]", "row_sum[0]", None)
    assert pipes(forward_text(CAUSAL, inside)) == pipes(forward_text(CAUSAL))
