"""The forward kernel of a variant, compiled for sm_100a without a GPU, run in the emulator and held against the oracle."""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attnspec.backends.sm100.backend import emit
from attnspec.backends.sm100.limits import LIMITS
from attnspec.emulator.launch import launch
from attnspec.emulator.report import Report
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.place import place
from attnspec.runtime.assemble import assemble
from attnspec.runtime.kernel_arguments import no_scratch
from attnspec.runtime.oracle import Answer, Problem, solve

from attnspec import stages
from attnspec.language.spec import Spec

BF16_FROBENIUS = 4e-3  # relative error of a bf16 result: probabilities and output are each rounded to 2^-9 on average
LSE_ERROR = 2e-5 + 8.8e-5  # natural log: f32 sums, and the polynomial of emulated exponentials, which a sum is off by at most


@cache
def compiled(text: str) -> tuple[Spec, Any]:
    """A variant's spec and its compiled forward."""
    analysed = stages.analyse(stages.read(text))
    schedule = place(draw(analysed, "forward"), analysed, LIMITS)
    with tempfile.TemporaryDirectory() as folder:
        return analysed.spec, assemble(emit(analysed, schedule), Path(folder)).compiled


@dataclass(frozen=True)
class Ran:
    """Results of the emulator, and what they should be."""

    report: Report
    out: torch.Tensor
    lse: torch.Tensor
    answer: Answer

    def frobenius(self) -> float:
        """Relative error of the output."""
        exact = self.answer.exact.out
        return float(np.linalg.norm(self.out.double().numpy() - exact) / max(1e-30, np.linalg.norm(exact)))

    def lse_error(self) -> float:
        """Largest error of the LSE; rows without keys must be -inf exactly."""
        exact, got = self.answer.exact.lse, self.lse.double().numpy()
        empty = np.isneginf(exact)
        assert (np.isneginf(got) == empty).all()
        return float(np.abs(np.where(empty, 0, got) - np.where(empty, 0, exact)).max())

    def check(self) -> None:
        """Right, and without a fault."""
        self.report.check()
        assert self.frobenius() < BF16_FROBENIUS
        assert self.lse_error() < LSE_ERROR


def forward(
    text: str, batch: int, heads: tuple[int, int], lengths: tuple[int, int], processors: int = 148, **options: Any
) -> Ran:
    """Run on normal inputs. heads: (query, key/value); lengths: (query, key); options: of `launch`."""
    spec, function = compiled(text)
    generator = torch.Generator().manual_seed(0)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[spec.dtype]

    def normal(length: int, count: int, width: int) -> torch.Tensor:
        return torch.randn(batch, length, count, width, generator=generator).to(dtype)

    q = normal(lengths[0], heads[0], spec.head_dim)
    k, v = (normal(lengths[1], heads[1], width) for width in (spec.head_dim, spec.head_dim_v))
    out = torch.full((batch, lengths[0], heads[0], spec.head_dim_v), float("nan"), dtype=dtype)
    lse = torch.full((batch, heads[0], lengths[0]), float("nan"))
    report = launch(function, q, k, v, out, lse, 0, 0, *lengths, *no_scratch(q.device), 1, processors, **options)
    exact = (one.double().numpy() for one in (q, k, v))
    answer = solve(Problem(spec, next(exact), next(exact), next(exact)))
    return Ran(report, out, lse, answer)
