"""The backward of a GPU target, run on the CPU by the emulator from the very PTX that would ship."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnspec.runtime.backward_arguments import gradients_of, prepare, writes_all
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.emulated_binary import EmulatedBinary
from attnspec.runtime.emulation import checked
from torch import Tensor

if TYPE_CHECKING:
    from attnspec.emulator.report import Report


@dataclass(frozen=True)
class EmulatedBackward(EmulatedBinary):
    """The backward's kernels. learned: by declaration, whether a tensor receives a gradient."""

    learned: tuple[bool, ...]

    def run(
        self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, ctas: int, seed: int | None
    ) -> "tuple[Gradients, Report | None]":
        """Gradients with some timing, and the emulator's report (None where there is nothing to launch)."""
        from attnspec.emulator.launch import launch

        prepared = prepare(call, results, dout, dlse, self.learned, self.emitted.manifest["scratch"])
        if writes_all(call, results):
            for gradient in (prepared.dq, prepared.dk, prepared.dv):
                gradient.fill_(float("nan"))  # what nobody writes is seen
        report = None
        if results.out.numel():
            report = launch(self.binary.compiled, *prepared.arguments, ctas, seed=seed, names=self.names)
            checked(report)
        return gradients_of(call, self.learned, prepared), report
