"""Analysed variants built by hand, so that dataflow and schedule are tested without the analyses."""

from math import inf, sqrt

from attnspec.lowering.analysis.analysed import Analysed, Bounds, Derivative, ElementCost, Walk

from attnspec.language.expr import Binary, Expr, Name, Number, Truth
from attnspec.language.spec import DType, Spec

SCORE = Name("score", "float")
FREE = ElementCost(0.0, 0.0, 0.0, 0.0)


def analysed(
    head_dim: int = 128,
    head_dim_v: int | None = None,
    *,
    dtype: DType = "bf16",
    score: Expr = SCORE,
    mask: Expr | None = None,
    is_varlen: bool = False,
    score_cost: ElementCost = FREE,
    mask_cost: ElementCost = FREE,
) -> Analysed:
    """A variant with nothing but what scheduling looks at."""
    spec = Spec(
        name="by_hand",
        head_dim=head_dim,
        head_dim_v=head_dim if head_dim_v is None else head_dim_v,
        group=None,
        dtype=dtype,
        scale=Number(1 / sqrt(head_dim), "float"),
        is_varlen=is_varlen,
        constants=(),
        tensors=(),
        score=score,
        mask=mask,
        sink=None,
    )
    everything = Walk("kv", (), (), True, ())
    return Analysed(
        spec=spec,
        keys=everything,
        queries=everything,
        derivative=Derivative(Number(1.0, "float"), (), (), ""),
        bounds=Bounds(-inf, inf, inf, True, 0, "nothing is proved"),
        reads=(),
        score_cost=score_cost,
        mask_cost=mask_cost,
        derivative_cost=FREE,
    )


# A score and a mask that are not trivial; what they say does not matter here.
DOUBLED = Binary("+", SCORE, SCORE, "float")
HIDDEN = Truth(False)
