"""The backward of a GPU target, run on the CPU by the emulator from the very PTX that would ship."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
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
        from attnspec.runtime.kernel_arguments import as_argument, places

        dq, dk, dv = (torch.zeros(given.shape, dtype=given.dtype) for given in (call.q, call.k, call.v))
        declared = tuple(map(as_argument, call.tensors))
        sums = [torch.zeros(given.shape) for given, is_learned in zip(declared, self.learned, strict=True) if is_learned]
        report = None
        if results.out.numel():
            given = (call.q, call.k, call.v, results.out, dout, results.lse.contiguous(), dlse, dq, dk, dv)
            arrays = tuple(array.unsqueeze(0) for array in given) if call.layout.is_packed else given
            words = self.emitted.manifest["scratch"]["exact_words"]
            exact = [torch.zeros(one.numel() * words, dtype=torch.int64) for one in sums] if words else []
            arguments = (*arrays, *self.scratch(call), *declared, *sums, *exact, *places(call))
            report = launch(self.binary.compiled, *arguments, ctas, seed=seed, names=self.names)
            checked(report)
        found = iter(sums)
        tensors = tuple(
            next(found).reshape(given.shape).to(given.dtype) if is_learned else None
            for given, is_learned in zip(call.tensors, self.learned, strict=True)
        )
        return Gradients(dq, dk, dv, tensors), report

    def scratch(self, call: Call) -> tuple[Tensor, ...]:
        """Memory that the passes hand to one another: numbers of each row, the sum of dQ, and where adding has an order, whose
        turn it is; the first pass fills it.
        """
        rows_of = self.emitted.manifest["scratch"]
        *_, length, heads, _ = call.q.shape
        tile, batch = rows_of["tile_q"], len(call.layout.segments)
        blocks = length // tile + batch if call.layout.is_packed else -(-length // tile) * batch
        rows = heads * blocks * tile
        planes, width = torch.empty(rows * rows_of["planes"]), torch.empty(rows * rows_of["width"])
        turns = torch.empty(heads * blocks * rows_of["turns"], dtype=torch.int32)
        return (planes, width, turns) if rows_of["turns"] else (planes, width)
