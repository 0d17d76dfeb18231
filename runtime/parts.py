"""A part of a call: some of its rows over some of its keys, with results that other parts can be joined to.

The forward of a part is that of the keys at hand alone. Its backward is given the results over *all* keys: with them a
probability and delta are those of the whole, so that each part's gradients are simply added up.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from attnspec.backends.layout import Layout, Segment
from attnspec.runtime.call import Call, Forward, Gradients, Program
from attnspec.runtime.reference_program import ReferenceProgram
from torch import Tensor

MOST_LAYOUTS = 4096


@dataclass(frozen=True)
class Partial:
    """Results as a program has them: out (batch, rows, heads, width) in f32 or 16 bits; lse and lost (batch, heads, rows), f32.

    lse + lost is the logarithm of a row's sum: lost is what rounding to f32 took, None where nobody knows.
    """

    out: Tensor
    lse: Tensor
    lost: Tensor | None

    def rows(self, first: int, last: int) -> "Partial":
        """Views of the rows [first, last)."""
        lost = None if self.lost is None else self.lost[..., first:last]
        return Partial(self.out[:, first:last], self.lse[..., first:last], lost)

    def contiguous(self) -> "Partial":
        """The same, laid end to end."""
        lost = None if self.lost is None else self.lost.contiguous()
        return Partial(self.out.contiguous(), self.lse.contiguous(), lost)


@dataclass(frozen=True)
class Place:
    """The position of the first row and the first key at hand, and the whole lengths."""

    q_offset: int
    kv_offset: int
    len_q: int
    len_kv: int


def part_call(q: Tensor, k: Tensor, v: Tensor, tensors: tuple[Tensor, ...], place: Place, deterministic: bool) -> Call:
    """A call of a part of a batch. Everything has been checked with the whole call."""
    batch, count_q, heads, _ = q.shape
    layout = layout_of(batch, heads, k.shape[2], count_q, k.shape[1], place, q.device)
    return Call(q, k, v, tensors, layout, deterministic)


@lru_cache(maxsize=MOST_LAYOUTS)
def layout_of(batch: int, heads: int, kv_heads: int, count_q: int, count_kv: int, place: Place, device: torch.device) -> Layout:
    """One for all parts alike: a program that has seen a layout on a device knows the rest of its call."""
    at = (place.q_offset, place.kv_offset, place.len_q, place.len_kv)
    segments = tuple(Segment(b, b, b, count_q, count_kv, *at) for b in range(batch))
    return Layout(batch, heads, kv_heads, False, segments, place.len_q, place.len_kv)


def out_dtype(program: Program, q: Tensor) -> torch.dtype:
    """Of a part's out: a GPU kernel's comes in 16 bits; the reference keeps f32."""
    return torch.float32 if isinstance(program, ReferenceProgram) else q.dtype


def forward_part(program: Program, call: Call) -> Partial:
    """Results over the keys at hand, of nobody else."""
    found = program.forward(call)
    if isinstance(program, ReferenceProgram):
        out, lost = found.saved
        return Partial(out, found.lse, lost)
    return Partial(found.out, found.lse, None)


def backward_part(program: Program, call: Call, whole: Partial, dout: Tensor, dlse: Tensor) -> Gradients:
    """What the keys at hand add to the gradients, unrounded where the program has it so.

    whole: results over all keys, as `forward_part` gives them; it, dout and dlse are contiguous.
    """
    if isinstance(program, ReferenceProgram):
        lost = torch.zeros_like(whole.lse) if whole.lost is None else whole.lost
        return program.unrounded_backward(call, Forward(whole.out, whole.lse, (whole.out, lost)), dout, dlse)
    return program.backward(call, Forward(whole.out, whole.lse, ()), dout, dlse)
