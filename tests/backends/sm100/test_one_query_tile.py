"""The forward of one query tile and two key tiles a step, run in the emulator against the float64 oracle."""

from functools import cache

import torch
from attnspec.backends.sm100.backend import emit
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place import place
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import judge
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages

CAUSAL = "attention causal\nhead_dim 128\nmask = kv <= qpos\n"


@cache
def program(text: str) -> EmulatedProgram:
    analysed = stages.analyse(stages.read(text))
    schedule = place(draw(analysed, "forward", one_query_tile=True), analysed, LIMITS)
    return EmulatedProgram(emit(analysed, schedule), schedule, analysed.spec.head_dim_v)


def test_odd_and_even_walks_and_empty_rows_are_right_and_the_same_for_every_timing() -> None:
    """Of 400 rows, the first 100 see no key, and work tiles have 1, 2 and 3 key tiles."""
    attention, made = attnspec.build(CAUSAL, on="emulator"), program(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 400, 300), 1)
    call = Call(inputs.q, inputs.k, inputs.v, {}, check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing()), False)
    found = [made.run(call, seed)[0] for seed in (None, 0, 1)]
    rows = judge(attention, inputs, [{"out": found[0].out, "lse": found[0].lse}], forward_only=True)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]
    assert all(torch.equal(other.out, found[0].out) and torch.equal(other.lse, found[0].lse) for other in found)
    assert made.binary.frame_bytes == 0
