"""What a target's backward cannot run, told before any scheduling, in the words of the file."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported

LARGEST = 256  # two parts of 128 columns
LARGEST_IN_REGISTERS = 128  # dK and dV of 64 keys


def refuse_backward(analysed: Analysed, limits: Limits, deterministic: bool = False) -> None:
    """Raise `Unsupported` for a variant whose forward the target's kernels can run, but not its backward, or not in one order."""
    spec = analysed.spec
    if deterministic and not limits.tensor_columns:
        raise Unsupported("deterministic=True", f"the backward of {limits.target} adds up dQ in any order, so far")
    largest = LARGEST if limits.tensor_columns else LARGEST_IN_REGISTERS
    if max(spec.head_dim, spec.head_dim_v) > largest:
        statement = f"head_dim {spec.head_dim}" + (f", {spec.head_dim_v}" if spec.head_dim_v != spec.head_dim else "")
        raise Unsupported(statement, f"the backward of {limits.target} takes head dimensions up to {largest}")
