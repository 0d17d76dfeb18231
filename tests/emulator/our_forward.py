"""The forward kernel of a variant as a subject of mutation: calls on one CTA, which has ragged work tiles with odd numbers of key
tiles, and query tiles that see no key."""

from dataclasses import dataclass

import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call as CheckedCall
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.kernel_arguments import boxed_of, empty_results, forward_arguments

import attnspec
from attnspec import stages
from tests.emulator.mutate import Call, Subject
from tests.small_constants import SMALL, path_of


@dataclass(frozen=True)
class Case:
    """spread: of scores; with much, row maxima grow so much that accumulators are rescaled. parts: work tiles that share out the
    keys of a row. infinite: a value is, which only the last rows see."""

    shape: Shape
    spread: int = 1
    parts: int = 1
    infinite: bool = False


CASES = (
    Case(Shape(1, 2, 1, 300, 417), 8),
    Case(Shape(1, 2, 1, 600, 200)),
    Case(Shape(1, 2, 1, 300, 417)),
    Case(Shape(1, 1, 1, 300, 417), 8, parts=2),
    Case(Shape(1, 1, 1, 300, 417), infinite=True),
)


def subject_of(variant: str) -> Subject:
    """Built for the emulator."""
    attention = attnspec.build(path_of(variant), on="emulator", **SMALL.get(variant, {}))
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    boxed = boxed_of(program.emitted.manifest, len(attention.spec.tensors))
    return Subject(program.binary.compiled, tuple(call(attention, case, boxed) for case in CASES))


def call(attention: attnspec.Attention, case: Case, boxed: tuple[bool, ...]) -> Call:
    """Its arguments with one processor; results hold NaN before it."""
    inputs = draw_inputs(attention.spec, fit_shape(attention.spec, case.shape), 1)
    if case.infinite:
        inputs.v[:, case.shape.len_q - 20, :, 5] = torch.inf
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    checked = CheckedCall(inputs.q * case.spread, inputs.k, inputs.v, declared, layout, False)
    out, lse = empty_results(checked, inputs.v.shape[-1])
    return Call((*forward_arguments(checked, out.fill_(torch.nan), lse.fill_(torch.nan), case.parts, boxed), 1))
