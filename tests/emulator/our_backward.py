"""The backward kernels of a variant as a subject of mutation, with sums in a fixed order: every timing gives the same bits."""

import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.backward_arguments import prepare
from attnspec.runtime.call import Call as CheckedCall
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from tests.emulator.mutate import Call, Subject
from tests.small_constants import SMALL, path_of

# Ragged tiles of both lengths, several for one CTA; keys that no query sees.
SHAPES = (Shape(1, 2, 1, 300, 417), Shape(1, 1, 1, 140, 300))


def subject_of(variant: str) -> Subject:
    """Built for the emulator, with one CTA a work tile whatever the model finds: mutants are those of that kernel."""
    attention = attnspec.build(path_of(variant), on="emulator", ctas=1, **SMALL.get(variant, {}))
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    return Subject(program.made_deterministic.binary.compiled, tuple(call(attention, program, shape) for shape in SHAPES))


def call(attention: attnspec.Attention, program: EmulatedProgram, shape: Shape) -> Call:
    """Its arguments with one processor, after the forward; what is only room holds zeros."""
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    checked = CheckedCall(inputs.q, inputs.k, inputs.v, declared, layout, False)
    backward = program.made_deterministic
    scratch = backward.emitted.manifest["scratch"]
    prepared = prepare(checked, program.forward(checked), inputs.dout, inputs.dlse, backward.learned, scratch)
    for room in prepared.arguments:
        if isinstance(room, torch.Tensor) and room.ndim == 1 and room.dtype in (torch.float32, torch.int32):
            room.zero_()
    return Call((*prepared.arguments, 1))
