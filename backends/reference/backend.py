"""The reference target: any variant, on any machine, in readable torch."""

from attnspec.backends.emitted import Emitted
from attnspec.backends.reference.backward import emit_backward
from attnspec.backends.reference.forward import emit_forward
from attnspec.backends.reference.module import TILE_KV, TILE_Q
from attnspec.lowering.analysis.analysed import Analysed

NAME = "reference"


def emit(analysed: Analysed) -> Emitted:
    """`forward` and `backward`; needs no schedule, and refuses no variant."""
    return Emitted(NAME, (emit_forward(analysed), emit_backward(analysed)), manifest(analysed))


def manifest(analysed: Analysed) -> dict[str, object]:
    """Facts of the variant in JSON types."""
    spec = analysed.spec
    return {
        "name": spec.name,
        "target": NAME,
        "dtype": spec.dtype,
        "head_dim": [spec.head_dim, spec.head_dim_v],
        "group": spec.group,
        "is_varlen": spec.is_varlen,
        "constants": {constant.name: constant.value for constant in spec.constants},
        "tensors": [
            {"name": tensor.name, "dtype": tensor.dtype, "rank": len(tensor.shape), "is_learned": tensor.is_learned}
            for tensor in spec.tensors
        ],
        "has_mask": spec.mask is not None,
        "has_sink": spec.sink is not None,
        "derivative": analysed.derivative.reason,
        "key_ranges": [found.reason for found in analysed.keys.seen],
        "is_walk_exact": analysed.keys.exact,
        "tile": [TILE_Q, TILE_KV],
    }
