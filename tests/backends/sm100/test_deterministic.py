"""deterministic=True: the backward's bits do not depend on timing, on the number of multiprocessors, or on the batch."""

from functools import cache

import pytest
import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import judge
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from tests.small_constants import SMALL, VARIANTS, path_of

RUNS = [(1, 1), (2, 2), (3, 3), (4, 2)]  # timing, multiprocessors
CAUSAL = "attention causal\nhead_dim 64\nmask = kv <= qpos\n"
# What no closed form has: key tiles visit query tiles that do not see them, and skip others between those that do.
SCATTERED = (
    "attention scattered\nhead_dim 64\nconst side = 128\n"
    "mask = (kv // side == q // side and kv % 3 == 0) or (kv // side == 0 and q // side == 2)"
    " or (kv // side == 1 and q // side == 2)\n"
)
LEARNED = (
    "attention learned_ones\nhead_dim 64\nlearned bias: f32[len_q + len_kv - 1]\nlearned slopes: f32[heads]\n"
    "learned sinks: f32[heads]\nscore = score + slopes[h] * bias[q - kv + len_kv - 1]\nsink = sinks[h]\n"
)
Bits = list[torch.Tensor]
"""Gradients of one run."""


@cache
def built(text: str) -> attnspec.Attention:
    return attnspec.build(text, on="emulator")


def gradients(attention: attnspec.Attention, inputs: Inputs, seed: int | None, processors: int) -> Bits:
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, True)
    results = program.forward(call)
    found, _ = program.made_deterministic.run(call, results, inputs.dout, inputs.dlse, processors, seed)
    return [found.dq, found.dk, found.dv, *(tensor for tensor in found.tensors if tensor is not None)]


def through_autograd(attention: attnspec.Attention, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Results of the public call, by the oracle's names."""
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v} | {name: inputs.tensors[name] for name in attention.learned}
    leaves = {name: array.clone().requires_grad_() for name, array in leaves.items()}
    given = inputs.tensors | {name: leaves[name] for name in attention.learned}
    q, k, v = (leaves[name] for name in ("q", "k", "v"))
    out, lse = attention(q, k, v, return_lse=True, deterministic=True, **inputs.keywords, **given)
    found = torch.autograd.grad((out, lse), list(leaves.values()), (inputs.dout, inputs.dlse))
    return {"out": out.detach(), "lse": lse.detach(), **dict(zip(leaves, found, strict=True))}


@pytest.mark.slow
@pytest.mark.parametrize("text", [CAUSAL, SCATTERED, LEARNED])
def test_bits_are_those_of_program_order_for_every_timing_and_number_of_processors(text: str) -> None:
    attention = built(text)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 390), 1)
    first = gradients(attention, inputs, None, 2)
    for seed, processors in RUNS:
        assert all(map(torch.equal, gradients(attention, inputs, seed, processors), first)), (seed, processors)


@pytest.mark.slow
def test_a_sequence_has_the_same_bits_in_any_batch() -> None:
    attention = built(CAUSAL)
    both = draw_inputs(attention.spec, Shape(2, 2, 1, 200, 200), 3)
    one = Inputs(**{name: getattr(both, name)[1:] for name in ("q", "k", "v", "dout", "dlse")}, tensors={})
    alone, together = gradients(attention, one, 5, 2), gradients(attention, both, 6, 2)
    assert all(torch.equal(left, right[1:]) for left, right in zip(alone, together, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_deterministic_gradients_of_every_variant_agree_with_the_oracle(variant: str) -> None:
    attention = attnspec.build(path_of(variant), on="emulator", **SMALL.get(variant, {}))
    shape = Shape(1, 1, 1, 20, 150) if (attention.spec.group or 1) > 8 else Shape(1, 2, 1, 140, 260)
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 0)
    rows = judge(attention, inputs, [through_autograd(attention, inputs)], False)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def test_key_tiles_that_begin_later_are_started_last_first_where_dq_has_an_order() -> None:
    analysed = built(CAUSAL).analysed
    texts = [
        stages.emit(analysed, stages.place(stages.draw(analysed, "backward", deterministic=one), analysed)).modules[0].text
        for one in (False, True)
    ]
    assert ["last_first=True" in text for text in texts] == [False, True]
    assert ["turns" in text for text in texts] == [False, True]
