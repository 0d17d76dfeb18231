"""Grids of expressions: their elements, their axes, and what joins a whole axis into one value."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from attnspec.flex import arithmetic
from attnspec.flex.place import Place
from attnspec.flex.refuse import refuse
from attnspec.flex.trace import Trace
from attnspec.flex.traced import Indices, Traced
from attnspec.language.expr import Binary, Expr, Number

MOST = 256  # elements that one reduction writes out
JOINS = {"any": "logical_or", "all": "logical_and", "sum": "add", "max_of": "maximum", "min_of": "minimum"}


def getitem(grid: Traced, index: tuple[Any, ...]) -> Traced:
    """`grid[index]` with numbers, slices, `None`, `...` and traced indices without axes."""
    items = list(_written_out(grid, index))
    kept = tuple(size for size, _ in items if size is not None)

    def at(indices: Indices) -> Expr:
        waiting = iter(indices)
        found = (of(next(waiting)) if size is not None else of(None) for size, of in items)
        return grid.at(tuple(expr for expr in found if expr is not None))

    return Traced(grid.trace, grid.kind, kept, at)


Item = tuple[int | None, Callable[[Expr | None], Expr | None]]  # size of the axis kept; the index below of the index above


def _written_out(grid: Traced, index: tuple[Any, ...]) -> Iterator[Item]:
    """What becomes of each axis, in order."""
    count = sum(item is not None and item is not ... for item in index)
    if count > len(grid.shape):
        refuse("wrong-index-count", f"a tensor with {len(grid.shape)} axes is indexed with {count}")
    index = index if ... in [item for item in index if not isinstance(item, Traced)] else (*index, ...)
    sizes = iter(grid.shape)
    for item in index:
        if item is ...:
            for _ in range(len(grid.shape) - count):
                yield next(sizes), lambda above: above
        elif item is None:
            yield 1, lambda above: None
        elif isinstance(item, slice):
            yield _slice(item, next(sizes))
        else:
            yield None, _fixed(item, next(sizes))


def _fixed(item: Any, size: int) -> Callable[[Expr | None], Expr | None]:
    if not isinstance(item, Traced):
        refuse("not-a-number", f"an index is a number or a traced integer, not {type(item).__name__}")
    if item.shape:
        refuse("index-has-axes", "an index that is itself a tensor with axes would gather a tensor", "index it first")
    if item.kind == "bool":
        refuse("index-not-integer", "an index is an integer, not a condition", "write `torch.where(condition, a, b)`")
    if item.kind == "float":
        refuse("index-not-integer", "an index is an integer, not a float", "convert it: `.to(torch.int32)`")
    return lambda above: item.expr


def _slice(item: slice, size: int) -> Item:
    if any(isinstance(end, Traced) for end in (item.start, item.stop, item.step)):
        refuse("slice-not-fixed", "a slice has Python numbers as its ends", "index one element, or mask with `torch.where`")
    start, stop, step = item.indices(size)
    length = len(range(start, stop, step))

    def below(above: Expr | None) -> Expr | None:
        if isinstance(above, Number):
            return Number(start + step * int(above.value), "int")
        if above is None or (start, step) == (0, 1):
            return above
        scaled = above if step == 1 else Binary("*", above, Number(step, "int"), "int")
        return Binary("+", scaled, Number(start, "int"), "int")

    return length, below


def axis_of(dim: Any, rank: int) -> int:
    """A number of an axis, counted from the end if negative, as one from the start."""
    if not isinstance(dim, int) or not -max(1, rank) <= dim < max(1, rank):
        refuse("no-such-axis", f"there is no axis {dim!r} of {rank}")
    return dim % max(1, rank)


def unsqueeze(grid: Traced, dim: int) -> Traced:
    """One more axis, of one element."""
    axis = axis_of(dim, len(grid.shape) + 1)
    shape = (*grid.shape[:axis], 1, *grid.shape[axis:])
    return replace(grid, shape=shape, at=lambda indices: grid.at((*indices[:axis], *indices[axis + 1 :])))


def squeeze(grid: Traced, dim: int | None = None) -> Traced:
    """Without the axes of one element, or without one of them."""
    wanted = range(len(grid.shape)) if dim is None else [axis_of(dim, len(grid.shape))]
    index = tuple(0 if axis in wanted and size == 1 else slice(None) for axis, size in enumerate(grid.shape))
    zero = Traced(grid.trace, "int", (), lambda indices: Number(0, "int"))
    return getitem(grid, tuple(zero if item == 0 else item for item in index))


def transpose(grid: Traced, dim0: int, dim1: int) -> Traced:
    """Two axes in each other's place."""
    order = list(range(len(grid.shape)))
    one, other = axis_of(dim0, len(order)), axis_of(dim1, len(order))
    if order:
        order[one], order[other] = order[other], order[one]
    shape = tuple(grid.shape[axis] for axis in order)
    return replace(grid, shape=shape, at=lambda indices: grid.at(tuple(indices[order.index(axis)] for axis in range(len(order)))))


def reduce(trace: Trace, place: Place, name: str, grid: Traced, dim: Any, keepdim: bool) -> Traced:
    """An axis, or all of them, joined into one value by writing its elements out."""
    rank = len(grid.shape)
    named = range(rank) if dim is None else dim if isinstance(dim, tuple | list) else (dim,)
    gone = {axis_of(axis, rank) for axis in named} if rank else set()
    count = 1
    for axis in gone:
        count *= grid.shape[axis]
    if count > MOST or count == 0:
        help = "compute it before, and capture the result"
        refuse("too-much-to-expand", f"this joins {count} elements, and {MOST} at most are written out", help, place=place)
    kept = tuple(1 if axis in gone else size for axis, size in enumerate(grid.shape) if keepdim or axis not in gone)

    def at(indices: Indices) -> Expr:
        above = iter(indices)
        choices: list[tuple[Expr | None, ...]] = []
        for axis, size in enumerate(grid.shape):
            kept = next(above) if keepdim or axis not in gone else None
            choices.append(tuple(Number(i, "int") for i in range(size)) if axis in gone else (kept,))
        elements = [grid.at(tuple(item for item in chosen if item is not None)) for chosen in product(*choices)]
        return balanced(trace, place, JOINS[name], elements)

    kind = "bool" if name in ("any", "all") else "int" if grid.kind == "bool" else grid.kind
    return Traced(trace, kind, kept, at)


def balanced(trace: Trace, place: Place, name: str, elements: list[Expr]) -> Expr:
    """Values joined two by two, so that none is nested deep."""
    if len(elements) == 1:
        return elements[0]
    half = len(elements) // 2
    sides = tuple(balanced(trace, place, name, part) for part in (elements[:half], elements[half:]))
    return arithmetic.build(name, trace.ctx, place.span, sides)


def dot(trace: Trace, place: Place, one: Traced, other: Traced) -> Traced:
    """The sum of the products of two vectors."""
    if len(one.shape) != 1 or one.shape != other.shape:
        shapes = f"{one.shape} and {other.shape}"
        refuse("not-vectors", f"two vectors of one length are wanted, not {shapes}", "index the other axes first", place=place)

    def at(indices: Indices) -> Expr:
        return arithmetic.build("mul", trace.ctx, place.span, (one.at(indices), other.at(indices)))

    kind = "float" if "float" in (one.kind, other.kind) else "int"
    total = reduce(trace, place, "sum", Traced(trace, kind, one.shape, at), None, False)
    expr = trace.labelled(total.at(()), place)
    return Traced(trace, expr.kind, (), lambda indices: expr)
