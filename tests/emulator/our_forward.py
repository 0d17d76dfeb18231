"""The forward kernel of a variant as a subject of mutation: three calls on one CTA, which has ragged work tiles with odd numbers
of key tiles, and query tiles that see no key."""

import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call as CheckedCall
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments

import attnspec
from attnspec import stages
from tests.emulator.mutate import Call, Subject
from tests.small_constants import SMALL, path_of

# A shape, and the spread of its scores: with much, row maxima grow so much that accumulators are rescaled.
CASES = (
    (Shape(1, 2, 1, 300, 417), 8),
    (Shape(1, 2, 1, 600, 200), 1),
    (Shape(1, 2, 1, 300, 417), 1),
)


def subject_of(variant: str) -> Subject:
    """Built for the emulator."""
    attention = attnspec.build(path_of(variant), on="emulator", **SMALL.get(variant, {}))
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    return Subject(program.binary.compiled, tuple(call(attention, *case) for case in CASES))


def call(attention: attnspec.Attention, shape: Shape, spread: int) -> Call:
    """Its arguments with one processor; results hold NaN before it."""
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    checked = CheckedCall(inputs.q * spread, inputs.k, inputs.v, declared, layout, False)
    out, lse = empty_results(checked, inputs.v.shape[-1])
    return Call((*forward_arguments(checked, out.fill_(torch.nan), lse.fill_(torch.nan)), 1))
