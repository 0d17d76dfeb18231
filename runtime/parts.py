"""A part of a call: some of its rows over some of its keys, with results that other parts can be joined to.

The forward of a part is that of the keys at hand alone. Its backward is given the results over *all* keys: with them a
probability and delta are those of the whole, so that each part's gradients are simply added up.
"""

from dataclasses import dataclass

import torch
from attnspec.backends.layout import Layout, Segment
from attnspec.runtime.call import Call, Forward, Gradients, Program
from attnspec.runtime.reference_program import ReferenceProgram
from torch import Tensor


@dataclass(frozen=True)
class Partial:
    """Results, f32. lse + lost is the logarithm of a row's sum: lost is what rounding to f32 took (0 where nobody knows)."""

    out: Tensor
    lse: Tensor
    lost: Tensor

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """In order."""
        return self.out, self.lse, self.lost


@dataclass(frozen=True)
class Place:
    """The position of the first row and the first key at hand, and the whole lengths."""

    q_offset: int
    kv_offset: int
    len_q: int
    len_kv: int


def part_call(q: Tensor, k: Tensor, v: Tensor, tensors: tuple[Tensor, ...], place: Place, deterministic: bool) -> Call:
    """A call of a part of a batch. Everything has been checked with the whole call."""
    count_q, count_kv = q.shape[1], k.shape[1]
    at = (place.q_offset, place.kv_offset, place.len_q, place.len_kv)
    segments = tuple(Segment(b, b, b, count_q, count_kv, *at) for b in range(len(q)))
    layout = Layout(len(q), q.shape[2], k.shape[2], False, segments, place.len_q, place.len_kv)
    return Call(q, k, v, tensors, layout, deterministic)


def forward_part(program: Program, call: Call) -> Partial:
    """Results over the keys at hand. A GPU kernel's out comes in 16 bits; the reference keeps f32."""
    found = program.forward(call)
    if isinstance(program, ReferenceProgram):
        out, lost = found.saved
        return Partial(out, found.lse, lost)
    return Partial(found.out.float(), found.lse, torch.zeros_like(found.lse))


def backward_part(program: Program, call: Call, whole: Partial, dout: Tensor, dlse: Tensor) -> Gradients:
    """What the keys at hand add to the gradients, unrounded where the program has it so. whole: results over all keys."""
    out, lse, lost = (array.contiguous() for array in whole.tensors)
    dout, dlse = dout.contiguous(), dlse.contiguous()
    if isinstance(program, ReferenceProgram):
        return program.unrounded_backward(call, Forward(out, lse, (out, lost)), dout, dlse)
    return program.backward(call, Forward(out.to(call.q.dtype), lse, ()), dout, dlse)
