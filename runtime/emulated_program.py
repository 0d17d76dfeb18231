"""A GPU target's kernels, run on the CPU by the emulator from the very PTX that would ship."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from attnspec.backends.emitted import Emitted
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments
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

        out, lse = empty_results(call, self.width_v)
        if not out.numel():
            return Forward(out, lse, ()), None
        report = launch(self.binary.compiled, *forward_arguments(call, out, lse), CTAS, seed=seed).check()
        return Forward(out, lse, ()), report

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Not built for GPU targets yet."""
        raise TargetError(f"the backward kernel of {self.emitted.target} is not built yet: only the forward runs in the emulator")
