"""Which variants two CTAs cannot share the tiles of, told before any scheduling."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward import has_own_columns, merges
from attnspec.lowering.dataflow.backward_pair import CTAS
from attnspec.lowering.dataflow.backward_shape import PART
from attnspec.lowering.dataflow.forward import LARGEST_NARROW, NARROW, tile_shape
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.complete import statement
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported


def can_pair(analysed: Analysed, limits: Limits) -> bool:
    """Whether two CTAs can share the tiles of a variant: their tensor core has instructions for it, and two query tiles fit."""
    return bool(limits.tensor_columns) and tile_shape(analysed.spec) == NARROW


def refuse_pair(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> None:
    """Raise `Unsupported` for a variant of which a pair of CTAs cannot run a kernel on this chip."""
    if not limits.tensor_columns:
        raise Unsupported("ctas = 2", f"tensor operations of {limits.target} are of one CTA")
    if dataflow.direction == "backward":
        reason = backward_reason(analysed, limits)
        if reason is not None:
            raise Unsupported(*reason)
    elif not can_pair(analysed, limits):
        most = "{}, {}".format(*LARGEST_NARROW)
        raise Unsupported(_dims(analysed), f"a pair of CTAs takes head dimensions up to {most}; one CTA (ctas=1) takes these")


def backward_reason(analysed: Analysed, limits: Limits) -> tuple[str, str] | None:
    """What asks for one CTA in the backward, and why; None where a pair can do it."""
    if not limits.tensor_columns:
        return "ctas = 2", f"tensor operations of {limits.target} are of one CTA"
    if max(analysed.spec.head_dim, analysed.spec.head_dim_v) > PART:
        return _dims(analysed), f"the backward of a pair of CTAs takes head dimensions up to {PART}, one CTA takes these"
    if merges(analysed) and not has_own_columns(analysed, CTAS):
        # dQ of a step then waits until the next scores have been read, and those until its dS has been taken: for ever.
        reason = "scores that are needed again with dP keep their columns, and dQ of a pair of CTAs has no others"
        return _dims(analysed), f"{reason} at these head dimensions; one CTA takes it"
    for found in analysed.derivative.learned:
        if found.address == "distance":
            reason = "its gradient is summed along diagonals of whole tiles, of which a thread of a pair of CTAs has two halves"
            return f"learned {found.tensor}", f"{reason}; one CTA takes it"
    return None


def _dims(analysed: Analysed) -> str:
    return statement((analysed.spec.head_dim, analysed.spec.head_dim_v))
