"""Which variants two CTAs cannot share the tiles of, told before any scheduling."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.forward import LARGEST_NARROW, NARROW, tile_shape
from attnspec.lowering.schedule.complete import statement
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported


def can_pair(analysed: Analysed, limits: Limits) -> bool:
    """Whether two CTAs can share the tiles of a variant: their tensor core has instructions for it, and two query tiles fit."""
    return bool(limits.tensor_columns) and tile_shape(analysed.spec) == NARROW


def refuse_pair(analysed: Analysed, limits: Limits) -> None:
    """Raise `Unsupported` for a variant whose forward a pair of CTAs cannot run on this chip."""
    if can_pair(analysed, limits):
        return
    dims = statement((analysed.spec.head_dim, analysed.spec.head_dim_v))
    if not limits.tensor_columns:
        raise Unsupported("ctas = 2", f"tensor operations of {limits.target} are of one CTA")
    most = "{}, {}".format(*LARGEST_NARROW)
    raise Unsupported(dims, f"a pair of CTAs takes head dimensions up to {most}; one CTA (ctas=1) takes these")
