"""A GPU target's kernels, run on the CPU by the emulator from the very PTX that would ship."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from attnspec.runtime.backward_forms import BackwardForms, Form, none_is_short
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.choose_parts import parts_of
from attnspec.runtime.emulated_backward import EmulatedBackward
from attnspec.runtime.emulated_binary import EmulatedBinary
from attnspec.runtime.emulation import checked, chosen_seed
from attnspec.runtime.kernel_arguments import boxed_of, empty_results, forward_arguments
from torch import Tensor

from attnspec.errors import TargetError

if TYPE_CHECKING:
    from attnspec.emulator.report import Report

CTAS = 4  # of the pretended GPU: few, so that small calls give a CTA several tiles


@dataclass(frozen=True)
class EmulatedProgram(EmulatedBinary):
    """The forward of a GPU target. seed: of the timing; None is program order. A fault that the emulator finds is raised.

    make_backward, short_calls: see `BackwardForms`.
    """

    width_v: int
    seed: int | None = None
    splits: int | None = 1
    make_backward: Callable[[Form], EmulatedBackward] | None = None
    short_calls: Callable[[], int] = none_is_short

    @cached_property
    def backwards(self) -> BackwardForms[EmulatedBackward]:
        """The backward's kernels, compiled when they are first asked for."""
        if self.make_backward is None:
            raise TargetError(f"this kernel of {self.emitted.target} was made without its backward")
        return BackwardForms(self.make_backward, self.short_calls)

    @property
    def made_backward(self) -> EmulatedBackward:
        """The backward of all calls but short ones."""
        return self.backwards.at(Form())

    @property
    def made_deterministic(self) -> EmulatedBackward:
        """The one whose bits do not depend on timing."""
        return self.backwards.at(Form(deterministic=True))

    def forward(self, call: Call, /) -> Forward:
        """out and lse of a call on CPU tensors."""
        return self.run(call, chosen_seed(self.seed), self.splits)[0]

    def run(self, call: Call, seed: int | None, splits: int | None = 1) -> "tuple[Forward, Report | None]":
        """The forward with another timing, and the emulator's report (None where there is nothing to launch).

        splits: parts of the keys, None: by the multiprocessors of the pretended GPU.
        """
        from attnspec.emulator.launch import launch

        out, lse = empty_results(call, self.width_v)
        if not out.numel():
            return Forward(out, lse, ()), None
        parts = parts_of(call, splits, self.emitted.manifest["work"], CTAS)
        arguments = forward_arguments(call, out, lse, parts, boxed_of(self.emitted.manifest, len(call.tensors)))
        report = launch(self.binary.compiled, *arguments, CTAS, seed=seed, names=self.names)
        return Forward(out, lse, ()), checked(report)

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients of a call on CPU tensors. `TargetError` names the statement that the target's backward cannot run."""
        return self.backwards.of(call).run(call, results, dout, dlse, CTAS, chosen_seed(self.seed))[0]
