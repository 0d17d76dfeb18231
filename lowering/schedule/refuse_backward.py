"""What a target's backward cannot run, told before any scheduling, in the words of the file."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported

from attnspec.language.expr import Number, Read, names, nodes


def refuse_backward(analysed: Analysed, limits: Limits) -> None:
    """Raise `Unsupported` for a variant whose forward the target's kernels can run, but not its backward."""
    spec = analysed.spec
    if spec.is_varlen:
        raise Unsupported("varlen", f"the backward of {limits.target} takes sequences of one length, so far")
    learned, at_once = analysed.derivative.learned, analysed.derivative.score == Number(1.0, "float")
    needs_score = not at_once or any("score" in names(found.partial) for found in learned)
    if needs_score and any(isinstance(at, Read) and "q" in names(at) for at in nodes(spec.score)):
        reason = (
            f"the backward of {limits.target} needs the score again with dP, and each element of it reads a tensor: not so far"
        )
        raise Unsupported("score", reason, spec.score_span)
    if max(spec.head_dim, spec.head_dim_v) > 128:
        statement = f"head_dim {spec.head_dim}" + (f", {spec.head_dim_v}" if spec.head_dim_v != spec.head_dim else "")
        raise Unsupported(statement, f"the backward of {limits.target} takes head dimensions up to 128, so far")
