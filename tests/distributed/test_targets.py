"""GPU targets over processes, their kernels run by the emulator: parts come in 16 bits, and some have no keys."""

import pytest
from attnspec.runtime.draw_inputs import Shape

from tests.distributed.cases import Case, outcome

# The first 25 rows see no key at all, so that a part of no keys has their sink; runs of 20 rows have several parts each.
HIDDEN = "attention hidden\nhead_dim 64\nlearned sinks: f32[heads]\nmask = kv <= qpos - 25\nsink = sinks[h]\n"
SHORT = Shape(1, 2, 1, 60, 60)
# The second rank's rows from 256 on see its own keys alone: of its 140 rows 116 have a second part.
ENDS = "attention ends\nhead_dim 64\nmask = window(100, 0)\n"
CASES = {
    "no keys": Case(HIDDEN, SHORT, "ring", "striped:20"),
    "packed": Case("packed_varlen", Shape(3, 2, 1, 20, 20), "ring", "striped:17"),
    "sums over heads": Case("gpt_oss", Shape(1, 2, 2, 50, 50), "ulysses", "zigzag"),
    "shards of ids": Case("document_causal", Shape(1, 2, 1, 50, 50), "all_gather", "zigzag", sharded=("ids_q", "ids_kv")),
    "learned by position": Case("forgetting", Shape(1, 2, 1, 40, 40), "ring", "zigzag"),
    "some rows": Case(ENDS, Shape(1, 1, 1, 280, 280), "ring", "contiguous"),
    "compiled": Case(HIDDEN, SHORT, "ring", "striped:20", backend="aot_eager"),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm90", "sm100"])
@pytest.mark.parametrize("name", CASES)
def test_kernels_of_a_gpu_over_two_processes_agree_with_the_oracle(processes, name, target):
    case = CASES[name]
    emulated = Case(case.variant, case.shape, case.strategy, case.layout, case.seed, case.sharded, case.backend, target)
    assert outcome(processes, emulated, 2)[0] == []
