"""Calls whose scores and values are given as plain numbers, for cases with closed forms, on each target that runs here.

One batch. Each logit is written as three 16-bit numbers that sum to it, against ones in q, so that the score is exact to f32.
Values stand in the first column of v, the others are 0, and the gradient of out comes to that column alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs

import attnspec

INF = math.inf
PARTS = 3


@dataclass(frozen=True)
class Result:
    """First head's results as lists: out and lse by query, d(logit) and dv by key; learned gradients by name.

    No gradients where the target has none.
    """

    out: list[float]
    lse: list[float]
    dlogits: list[float]
    dv: list[float]
    learned: dict[str, torch.Tensor]


def spec(*statements: str, head_dim: int = 16, dtype: str = "fp16") -> str:
    """The text of a variant with scale 1."""
    return "\n".join(["attention case", f"head_dim {head_dim}", f"dtype {dtype}", "scale 1.0", *statements, ""])


def split(logit: float, dtype: torch.dtype) -> list[float]:
    """The logit as three numbers of the dtype."""
    parts = []
    for _ in range(PARTS):
        part = torch.tensor(logit, dtype=torch.float64).to(dtype).double().item()
        parts.append(part)
        logit -= part
    return parts


@dataclass(frozen=True)
class Target:
    """Where a case runs: the reference, or the kernel of a GPU in the emulator. differentiates: whether it has a backward."""

    name: str

    @property
    def differentiates(self) -> bool:
        return self.name in ("reference", "sm100")

    def gradient_error(self, exact: float) -> float:
        """Relative. exact: of f32. A GPU's kernel rounds out, of which delta is made, and d(score) to 16 bits."""
        return exact if self.name == "reference" else max(exact, 2.0**-8)

    @property
    def tanh_error(self) -> float:
        """Relative; PTX ISA, tanh.approx."""
        return 2.0**-20 if self.name == "reference" else 2.0**-10.9

    @property
    def lse_error(self) -> float:
        """Natural log: roundings to f32, and of a GPU's kernel what the polynomial of emulated exponentials is off by (FA4)."""
        return 1e-6 if self.name == "reference" else 1e-6 + 8.8e-5

    def build(self, text: str, **constants: int | float) -> attnspec.Attention:
        """The variant on this target; kernels are compiled once a session."""
        on = None if self.name == "reference" else "emulator"
        return attnspec.build(text, target=self.name, on=on, **constants)

    def is_right(self, text: str, shape: Shape, seed: int = 0) -> bool:
        """Whether all results of drawn inputs are near the oracle's."""
        attention = self.build(text)
        return self.agrees(attention, draw_inputs(attention.spec, shape, seed))

    def agrees(self, attention: attnspec.Attention, inputs: Inputs) -> bool:
        """The same for inputs at hand."""
        return all(row.is_right for row in compare(attention, inputs, forward_only=not self.differentiates))

    def counts(self, *statements: str, queries: int, keys: int, **tensors: Any) -> list[int]:
        """Visible keys of each query, from the LSE of zero logits."""
        lse = self.attend(spec(*statements), queries, [1.0] * keys, **tensors).lse
        return [round(math.exp(value)) if value > -INF else 0 for value in lse]

    def attend(
        self,
        text: str,
        queries: int,
        values: Sequence[float],
        logits: Sequence[float] | None = None,
        dout: float = 1.0,
        dlse: float = 0.0,
        heads: int = 1,
        **tensors: Any,
    ) -> Result:
        """Run forward and, where there is one, backward; logits (default 0) and values are one a key."""
        attention = self.build(text)
        dtype = torch.float16 if attention.spec.dtype == "fp16" else torch.bfloat16
        keys, width = len(values), attention.spec.head_dim
        q = torch.zeros(1, queries, heads, width, dtype=dtype)
        q[..., :PARTS] = 1
        k, v = (torch.zeros(1, keys, heads, width, dtype=dtype) for _ in range(2))
        for key, logit in enumerate(logits or []):
            k[0, key, :, :PARTS] = torch.tensor(split(logit, dtype), dtype=torch.float64).to(dtype)
        v[0, :, :, 0] = torch.tensor(values, dtype=torch.float64).to(dtype)[:, None]
        if not self.differentiates:
            out, lse = attention(q, k, v, return_lse=True, **tensors)
            return Result(out[0, :, 0, 0].tolist(), lse[0, 0].tolist(), [], [], {})
        learned = {name: tensors[name].requires_grad_() for name in attention.learned}
        leaves = [k.requires_grad_(), v.requires_grad_(), *learned.values()]
        out, lse = attention(q, k, v, return_lse=True, **tensors)
        upstream = torch.zeros_like(out)
        upstream[..., 0] = dout
        dk, dv, *rest = torch.autograd.grad((out, lse), leaves, (upstream, torch.full_like(lse, dlse)))
        gradients = dict(zip(learned, rest, strict=True))
        return Result(out[0, :, 0, 0].tolist(), lse[0, 0].tolist(), dk[0, :, 0, 0].tolist(), dv[0, :, 0, 0].tolist(), gradients)


REFERENCE = Target("reference")
attend, counts = REFERENCE.attend, REFERENCE.counts


def near(expected: Any):
    """Equal up to one rounding to fp16 (2^-11), or to f32 sums of numbers near 1 (2^-20)."""
    return pytest.approx(expected, rel=2.0**-11, abs=2.0**-20)


def exactly_f32(expected: Any):
    """Equal up to a few roundings to f32 (LSE and f32 gradients)."""
    return pytest.approx(expected, rel=2.0**-21, abs=2.0**-21)
