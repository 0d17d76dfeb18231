"""The backward of a GPU target, run on the CPU by the emulator from the very PTX that would ship."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from attnspec.backends.emitted import Emitted
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.emulation import checked
from torch import Tensor

from attnspec.errors import TargetError

if TYPE_CHECKING:
    from attnspec.emulator.names import Names
    from attnspec.emulator.report import Report


@dataclass(frozen=True)
class EmulatedBackward:
    """The backward's kernels. learned: by declaration, whether a tensor receives a gradient.
    schedule: what reports take names from."""

    emitted: Emitted
    learned: tuple[bool, ...]
    schedule: Schedule
    _folder: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="attnspec-"), repr=False)

    @cached_property
    def binary(self) -> Binary:
        """The compiled kernels; their source stays in a folder of its own as long as this lives."""
        return assemble(self.emitted, Path(self._folder.name))

    @cached_property
    def names(self) -> "Names":
        """What reports call the parts of the kernel."""
        from attnspec.runtime.emulated_names import names_of

        return names_of(self.schedule, self.emitted, Path(self._folder.name))

    def run(
        self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, ctas: int, seed: int | None
    ) -> "tuple[Gradients, Report | None]":
        """Gradients with some timing, and the emulator's report (None where there is nothing to launch)."""
        from attnspec.emulator.launch import launch
        from attnspec.runtime.kernel_arguments import as_argument, places

        refuse(call)
        dq, dk, dv = (torch.zeros(given.shape, dtype=given.dtype) for given in (call.q, call.k, call.v))
        declared = tuple(map(as_argument, call.tensors))
        sums = [torch.zeros(given.shape) for given, is_learned in zip(declared, self.learned, strict=True) if is_learned]
        report = None
        if results.out.numel():
            given = (call.q, call.k, call.v, results.out, dout, results.lse.contiguous(), dlse, dq, dk, dv)
            arrays = tuple(array.unsqueeze(0) for array in given) if call.layout.is_packed else given
            arguments = (*arrays, *self.scratch(call), *declared, *sums, *places(call))
            report = launch(self.binary.compiled, *arguments, ctas, seed=seed, names=self.names)
            checked(report)
        found = iter(sums)
        tensors = tuple(
            next(found).reshape(given.shape).to(given.dtype) if is_learned else None
            for given, is_learned in zip(call.tensors, self.learned, strict=True)
        )
        return Gradients(dq, dk, dv, tensors), report

    def scratch(self, call: Call) -> tuple[Tensor, Tensor]:
        """Memory that the passes hand to one another: numbers of each row, and the sum of dQ; the first pass fills it."""
        rows_of = self.emitted.manifest["scratch"]
        *_, length, heads, _ = call.q.shape
        tile, batch = rows_of["tile_q"], len(call.layout.segments)
        blocks = length // tile + batch if call.layout.is_packed else -(-length // tile) * batch
        rows = heads * blocks * tile
        planes, width = torch.empty(rows * rows_of["planes"]), torch.empty(rows * rows_of["width"])
        return planes, width


def refuse(call: Call) -> None:
    """What the kernels do not see yet."""
    if call.deterministic:
        raise TargetError("deterministic=True: the backward of sm100 adds up dQ in any order, so far; the reference keeps one")
