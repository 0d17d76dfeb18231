"""Everything the analyses find of a spec."""

from dataclasses import replace

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.bounds import bounds
from attnspec.lowering.analysis.cost import element_cost
from attnspec.lowering.analysis.derivative import derivative
from attnspec.lowering.analysis.facts import facts_of
from attnspec.lowering.analysis.intervals import walks
from attnspec.lowering.analysis.reads import reads
from attnspec.lowering.simplify import simplify

from attnspec.language.expr import Truth
from attnspec.language.spec import Spec


def analyse(spec: Spec) -> Analysed:
    """The spec, its expressions simplified, with its walks, derivatives, bounds, reads and costs.

    A mask that is always true becomes None. Expressions of the answer share nodes with the simplified spec, not with the
    one given.
    """
    spec = simplified(spec)
    found = derivative(spec)
    keys, queries = walks(spec.mask, facts_of(spec))
    return Analysed(
        spec=spec,
        keys=keys,
        queries=queries,
        derivative=found,
        bounds=bounds(spec),
        reads=reads(spec),
        score_cost=element_cost(spec.score),
        mask_cost=element_cost(spec.mask),
        derivative_cost=element_cost(found.score, *(entry.partial for entry in found.learned)),
    )


def simplified(spec: Spec) -> Spec:
    """The spec with simple expressions."""
    mask = simplify(spec.mask) if spec.mask is not None else None
    return replace(
        spec,
        score=simplify(spec.score),
        mask=None if mask == Truth(True) else mask,
        sink=simplify(spec.sink) if spec.sink is not None else None,
        scale=simplify(spec.scale),
    )
