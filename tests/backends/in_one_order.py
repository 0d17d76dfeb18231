"""Deterministic gradients in the emulator, with a timing and a number of multiprocessors."""

import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Inputs
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages

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


def gradients(attention: attnspec.Attention, target: str, inputs: Inputs, seed: int | None, processors: int) -> Bits:
    """Those of q, k, v and the learned tensors. seed: of the timing; None: in program order."""
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, target).program
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


def of_second_sequence(both: Inputs) -> Inputs:
    """A batch of two without the first."""
    return Inputs(**{name: getattr(both, name)[1:] for name in ("q", "k", "v", "dout", "dlse")}, tensors={})
