"""Comparisons with a sorted tensor's element, as comparisons with a place: `ids[kv] == x` is a range of keys.

A row then looks its places up once, where each of its elements would have read the tensor and compared.
"""

from dataclasses import replace
from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.facts import Facts, facts_of
from attnspec.lowering.analysis.linear import linear
from attnspec.lowering.analysis.solve import direction, is_sorted_at
from attnspec.lowering.analysis.words import MOST_PARTS, tree_size

from attnspec.language.expr import Compare, CompareOp, Expr, Logic, Name, Read, Search, Unary, children, names, nodes, substitute
from attnspec.language.show_expr import show_expr
from attnspec.language.spec import Spec

Axis = Literal["q", "kv"]
OTHER: dict[Axis, Axis] = {"kv": "q", "q": "kv"}
MIRROR: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def solve_sorted(spec: Spec, axis: Axis) -> Expr | None:
    """The mask, its comparisons with an element of a sorted tensor at the position `axis` solved for that position.

    What the element is compared with may hang on the other position if it is known to rise or to fall with it: the place of a
    row is then sought between those of the tile's first and last row.
    """
    return None if spec.mask is None else _solved(spec.mask, spec, facts_of(spec), axis)


def sought_places(analysed: Analysed) -> tuple[Search, ...]:
    """Places that a query tile's walk and the rows of its mask ask for, all known as soon as the tile is: each once.

    What waits for another place, or is sought for each row, is not among them.
    """
    edges = [edge for found in (*analysed.keys.seen, *analysed.keys.hidden) for edge in (found.first, found.last)]
    mask = solve_sorted(analysed.spec, "kv")
    exprs = edges if mask is None else [*edges, mask]
    found = dict.fromkeys(at for expr in exprs for at in nodes(expr) if isinstance(at, Search) and not at.within)
    return tuple(at for at in found if label_of(at) and not waits(at))


def waits(search: Search) -> bool:
    """Whether what is sought is known only when another place has been found."""
    return any(isinstance(at, Search) for child in children(search) for at in nodes(child))


def label_of(search: Search) -> str:
    """By which a tile knows that a place has been sought already: the words of what is sought; of endless ones, nothing."""
    return show_expr(search) if tree_size(search) <= MOST_PARTS else ""


def _solved(mask: Expr, spec: Spec, facts: Facts, axis: Axis) -> Expr:
    match mask:
        case Logic(left=left, right=right):
            return replace(mask, left=_solved(left, spec, facts, axis), right=_solved(right, spec, facts, axis))
        case Unary(op="not", operand=operand):
            return replace(mask, operand=_solved(operand, spec, facts, axis))
        case Compare(op=op, left=left, right=right) if left.kind == "int":
            sides: tuple[tuple[Expr, Expr, CompareOp], ...] = ((left, right, op), (right, left, MIRROR[op]))
            for element, other, way in sides:
                if isinstance(element, Read) and _is_solvable(element, other, spec, facts, axis):
                    return _in_places(mask, element, way, _sides(element, other, facts, axis), axis)
    return mask


def _is_solvable(element: Read, other: Expr, spec: Spec, facts: Facts, axis: Axis) -> bool:
    if not element.indices or element.indices[-1] != Name(axis, "int") or not is_sorted_at(element, axis, facts):
        return False
    shape = next(tensor.shape for tensor in spec.tensors if tensor.name == element.tensor)
    if shape[-1] != Name(f"len_{axis}", "int"):
        return False  # an index beyond the axis reads its last element, which a place does not know
    known = direction(linear(other), OTHER[axis], facts)
    return axis not in names(other) and known is not None


def _sides(element: Read, other: Expr, facts: Facts, axis: Axis) -> dict[str, Search]:
    """Where the value belongs, left and right of its equals."""
    position = OTHER[axis]
    way = direction(linear(other), position, facts)
    found = {}
    for side in ("left", "right"):
        place = Search(element.tensor, element.indices[:-1], other, side)
        if way:
            ends = [substitute(other, position, Name(f"{position}_{end}", "int")) for end in ("first", "last")[::way]]
            within = [part for end in ends for part in (end, replace(place, value=end))]
            place = replace(place, within=tuple(within))
        found[side] = place
    return found


def _in_places(at: Compare, element: Read, op: CompareOp, place: dict[str, Search], axis: Axis) -> Expr:
    def compare(way: CompareOp, side: str) -> Compare:
        return Compare(way, Name(axis, "int"), place[side], at.span, at.label)

    match op:
        case "<" | ">=":
            return compare(op, "left")
        case "<=":
            return compare("<", "right")
        case ">":
            return compare(">=", "right")
        case "==":
            return Logic("and", compare(">=", "left"), compare("<", "right"), at.span, at.label)
        case "!=":
            return Logic("or", compare("<", "left"), compare(">=", "right"), at.span, at.label)
