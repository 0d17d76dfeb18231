"""A GPU target's kernels, run on the CPU by the emulator from the very PTX that would ship."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from attnspec.backends.emitted import Emitted
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary
from attnspec.runtime.call import Call, Forward, Gradients
from torch import Tensor

from attnspec.errors import TargetError

if TYPE_CHECKING:
    from attnspec.emulator.report import Report

CTAS = 4  # of the pretended GPU: few, so that small calls give a CTA several tiles


@dataclass(frozen=True)
class EmulatedProgram:
    """The forward of a GPU target. seed: of the timing; None is program order. A fault that the emulator finds is raised."""

    emitted: Emitted
    width_v: int
    seed: int | None = None
    _folder: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="attnspec-"), repr=False)

    @cached_property
    def binary(self) -> Binary:
        """The compiled kernel; its source stays in a folder of its own as long as the program lives."""
        return assemble(self.emitted, Path(self._folder.name))

    def forward(self, call: Call, /) -> Forward:
        """out and lse of a call on CPU tensors."""
        return self.run(call, self.seed)[0]

    def run(self, call: Call, seed: int | None) -> "tuple[Forward, Report | None]":
        """The forward with another timing, and the emulator's report (None where there is nothing to launch)."""
        from attnspec.emulator.launch import launch

        refuse_offsets(call)
        batch, length, heads = call.q.shape[:3]
        out = call.q.new_empty(batch, length, heads, self.width_v)
        lse = torch.empty(batch, heads, length, dtype=torch.float32)
        if not out.numel():
            return Forward(out, lse, ()), None
        arguments = (call.q, call.k, call.v, out, lse, *map(as_argument, call.tensors))
        report = launch(self.binary.compiled, *arguments, CTAS, seed=seed).check()
        return Forward(out, lse, ()), report

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Not built for GPU targets yet."""
        raise TargetError(f"the backward kernel of {self.emitted.target} is not built yet: only the forward runs in the emulator")


def as_argument(tensor: Tensor) -> Tensor:
    """A declared tensor as the kernel takes it: a scalar as one element, truth values as bytes.

    A tensor without elements reads as 0 (a length of 0 may have ranges that depend on it); a kernel clamps every index, and
    needs an element to clamp it to.
    """
    tensor = tensor.detach()
    if not tensor.numel():
        tensor = tensor.new_zeros([max(1, size) for size in tensor.shape])
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def refuse_offsets(call: Call) -> None:
    """Parts of a longer sequence are not what the kernel sees yet."""
    for one in call.layout.segments:
        if one.q_offset or one.kv_offset or (one.len_q, one.len_kv) != (one.count_q, one.count_kv):
            raise TargetError("q_offset, kv_offset, len_q and len_kv run on the reference target only, so far")
