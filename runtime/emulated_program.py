"""A GPU target's kernels, run on the CPU by the emulator from the very PTX that would ship."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from attnspec.backends.emitted import Emitted
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.emulated_backward import EmulatedBackward
from attnspec.runtime.emulation import checked, chosen_seed
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments
from torch import Tensor

from attnspec.errors import TargetError

if TYPE_CHECKING:
    from attnspec.emulator.names import Names
    from attnspec.emulator.report import Report

CTAS = 4  # of the pretended GPU: few, so that small calls give a CTA several tiles


@dataclass(frozen=True)
class EmulatedProgram:
    """The forward of a GPU target. schedule: what its reports take names from. seed: of the timing; None is program order.
    A fault that the emulator finds is raised."""

    emitted: Emitted
    width_v: int
    schedule: Schedule
    seed: int | None = None
    make_backward: Callable[[], EmulatedBackward] | None = None
    _folder: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="attnspec-"), repr=False)

    @cached_property
    def binary(self) -> Binary:
        """The compiled kernel; its source stays in a folder of its own as long as the program lives."""
        return assemble(self.emitted, Path(self._folder.name))

    @cached_property
    def names(self) -> "Names":
        """What reports call the parts of the kernel."""
        from attnspec.runtime.emulated_names import names_of

        return names_of(self.schedule, self.emitted, Path(self._folder.name))

    @cached_property
    def made_backward(self) -> EmulatedBackward:
        """The backward, compiled when it is first asked for."""
        if self.make_backward is None:
            raise TargetError(f"this kernel of {self.emitted.target} was made without its backward")
        return self.make_backward()

    def forward(self, call: Call, /) -> Forward:
        """out and lse of a call on CPU tensors."""
        return self.run(call, chosen_seed(self.seed))[0]

    def run(self, call: Call, seed: int | None) -> "tuple[Forward, Report | None]":
        """The forward with another timing, and the emulator's report (None where there is nothing to launch)."""
        from attnspec.emulator.launch import launch

        out, lse = empty_results(call, self.width_v)
        if not out.numel():
            return Forward(out, lse, ()), None
        arguments = forward_arguments(call, out, lse)
        report = launch(self.binary.compiled, *arguments, CTAS, seed=seed, names=self.names)
        return Forward(out, lse, ()), checked(report)

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients of a call on CPU tensors. `Unsupported` names the statement that the target's backward cannot run."""
        return self.made_backward.run(call, results, dout, dlse, CTAS, chosen_seed(self.seed))[0]
