"""What is decided beside roles and places."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.forward import tile_shape
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.schedule import Choices

from attnspec.language.expr import names, tensors_read

# Old maxima stay until the new one is 2^8 larger (FA4, conditional rescaling): P stays below 2^8, finite in bf16 and fp16.
RESCALE_THRESHOLD = 8.0
# Until the kernel library has an exponential for the FMA pipe.
EMULATED_SHARE = 0.0
# Of L2, for keys and values of the heads in flight; the rest is for queries, outputs and what else runs (FA4 takes 50 MB).
L2_SHARE = 0.4


def make_choices(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Choices:
    """Choices for a graph. The row maximum is kept where the graph has it, whatever the bounds of the score would allow."""
    return Choices(
        rescale_threshold=RESCALE_THRESHOLD,
        emulated_share=EMULATED_SHARE,
        exponential_degree=3,
        cta_group=1,
        probability_split=tile_shape(analysed.spec).head_keys,
        needs_row_max=any(operation.kind == "row_max" for operation in dataflow.operations),
        longest_first=_lengths_differ(analysed),
        l2_bytes=int(limits.l2_bytes * L2_SHARE),
    )


def _lengths_differ(analysed: Analysed) -> bool:
    """Whether the number of keys that a query tile visits depends on where the tile is, or on data."""
    ends = [end for found in analysed.keys.seen for end in (found.first, found.last)]
    return any(names(end) & {"q_first", "q_last"} or tensors_read(end) for end in ends)
