"""What a target cannot run, told before any scheduling, in the words of the file."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported

LARGEST = 256  # columns of one tensor operation


def refuse_unsupported(analysed: Analysed, limits: Limits) -> None:
    """Raise `Unsupported` for a variant whose forward the target's kernels cannot run."""
    spec = analysed.spec
    dims = (spec.head_dim, spec.head_dim_v)
    if max(dims) > LARGEST or any(dim % 8 for dim in dims):
        statement = f"head_dim {dims[0]}" if dims[0] == dims[1] else f"head_dim {dims[0]}, {dims[1]}"
        reason = f"{limits.target} takes multiples of 8 up to {LARGEST}"
        raise Unsupported(statement, reason)
