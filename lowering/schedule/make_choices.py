"""What is decided beside roles and places."""

from dataclasses import replace

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.visits import count_visits, unknown_of
from attnspec.lowering.dataflow.forward import tile_shape
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.choose_share import choose_share, choose_tanh
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.schedule import Choices

from attnspec.language.expr import Expr, names, tensors_read

# Old maxima stay until the new one is 2^8 larger (FA4, conditional rescaling): P stays below 2^8, finite in bf16 and fp16.
RESCALE_THRESHOLD = 8.0
DEGREE = 3  # of the polynomial: exact to the 16 bits of P in all but one element of a hundred (FA4)
# Of L2, for keys and values of the heads in flight; the rest is for queries, outputs and what else runs (FA4 takes 50 MB).
L2_SHARE = 0.4
LONG = 8192  # queries and keys, such that what is visited of twice as many tells whether it is bounded


def make_choices(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Choices:
    """Choices for a graph. The row maximum is kept where the graph has it, whatever the bounds of the score would allow."""
    choices = Choices(
        rescale_threshold=RESCALE_THRESHOLD,
        emulated_share=0.0,
        exponential_degree=DEGREE,
        cta_group=2 if dataflow.ctas == 2 else 1,
        probability_split=0 if dataflow.register_products else tile_shape(analysed.spec).head_keys,
        needs_row_max=any(operation.kind == "row_max" for operation in dataflow.operations),
        longest_first=_lengths_differ(analysed),
        scatters=analysed.spec.is_varlen or any(map(tensors_read, _ends(analysed))),
        grows=dataflow.direction == "backward" and _lengths_grow(analysed, dataflow),
        l2_bytes=int(limits.l2_bytes * L2_SHARE),
        tanh=choose_tanh(limits),
        takes_turns=bool(dataflow.register_products) and dataflow.direction == "forward",
    )
    return replace(choices, emulated_share=emulated_share(dataflow, analysed, choices, limits))


def emulated_share(dataflow: Dataflow, analysed: Analysed, choices: Choices, limits: Limits) -> float:
    """The share of exponentials that the cost model emulates for a variant, its head dimension, and a chip; no backward's."""
    dims = (analysed.spec.head_dim, analysed.spec.head_dim_v)
    if dataflow.direction == "backward":
        return 0.0  # its exponentials are no bottleneck (FA4)
    return choose_share(dataflow, dims, choices, limits, lambda other: price(dataflow, analysed, other, limits))


def _lengths_differ(analysed: Analysed) -> bool:
    """Whether the number of keys that a query tile visits depends on where the tile is, or on data."""
    return any(names(end) & {"q_first", "q_last"} or tensors_read(end) for end in _ends(analysed))


def _lengths_grow(analysed: Analysed, dataflow: Dataflow) -> bool:
    """Whether key tiles of longer sequences visit more query tiles each: twice the length is mostly four times the visits."""
    if unknown_of(analysed) or not _lengths_differ(analysed):
        return False
    short, long = (count_visits(analysed, dataflow.tile_q, dataflow.tile_kv, length) for length in (LONG, 2 * LONG))
    return long > 3 * short


def _ends(analysed: Analysed) -> list[Expr]:
    """First and last keys that a query tile visits."""
    return [end for found in analysed.keys.seen for end in (found.first, found.last)]
