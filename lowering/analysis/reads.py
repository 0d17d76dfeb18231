"""How each tensor that a variant reads is addressed, and so how a kernel should hold it."""

from typing import Literal

from attnspec.lowering.analysis.addresses import address_of
from attnspec.lowering.analysis.analysed import TensorRead

from attnspec.language.expr import Expr, Read, nodes
from attnspec.language.spec import Spec

Where = Literal["score", "mask", "sink", "scale"]


def reads(spec: Spec) -> tuple[TensorRead, ...]:
    """Every distinct read, in the order score, mask, sink, scale; a read inside an index counts too."""
    places: tuple[tuple[Where, Expr | None], ...] = (
        ("score", spec.score),
        ("mask", spec.mask),
        ("sink", spec.sink),
        ("scale", spec.scale),
    )
    return tuple(read_of(at, where) for where, expr in places if expr for at in nodes(expr) if isinstance(at, Read))


def read_of(at: Read, where: Where) -> TensorRead:
    """One read."""
    address, reason = address_of(at.indices)
    return TensorRead(at.tensor, at.indices, address, where, reason)
