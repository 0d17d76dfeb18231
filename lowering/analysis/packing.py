"""Whether the query heads of a group may share work tiles, each row of a tile with a head of its own.

What a tile shares must then not depend on the query head: the keys that it visits, where it is masked, and values that are
brought to shared memory once a tile. Anything of a row or an element may.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.sorted_masks import solve_sorted
from attnspec.lowering.analysis.staging import stage

from attnspec.language.expr import Expr, Search, names, nodes


@dataclass(frozen=True)
class Packing:
    """is_allowed: whether a call may pack heads; reason: why not, or what decides, as `attnc explain` prints it."""

    is_allowed: bool
    reason: str


def packing(analysed: Analysed) -> Packing:
    """Decide from the group, the walk and the staged values."""
    spec, keys = analysed.spec, analysed.keys
    if spec.group == 1:
        return Packing(False, "`group 1`: there is nothing to share")
    if _depend_on_head(edge for found in (*keys.seen, *keys.hidden) for edge in (found.first, found.last)):
        return Packing(False, "the keys that a tile visits depend on the query head")
    if _depend_on_head(value.expr for value in stage(spec).values):
        return Packing(False, "values that a tile shares through shared memory depend on the query head")
    mask = solve_sorted(spec, "kv")
    if mask is not None and _depend_on_head(at for at in nodes(mask) if isinstance(at, Search)):
        return Packing(False, "places in a sorted tensor, which a tile's rows seek together, depend on the query head")
    return Packing(True, "a call packs the heads of a group where that saves an eighth of its work tiles")


def _depend_on_head(exprs: Iterable[Expr]) -> bool:
    return any("h" in names(expr) for expr in exprs)
