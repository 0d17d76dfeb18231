"""Indices of reads as kernels compute them: what is proved to be inside its axis says so, and clamps are spelled to cost little.

A kernel brings every index into its axis (docs/contract.md, 8), also those of rows and keys beyond the sequences, whose values
nobody uses. So a proof takes nothing on trust: positions, sizes and what tensors hold are any 32-bit integers, sums may wrap,
and only an axis whose size the file fixes is one that an index can be proved to be inside.
"""

from collections.abc import Iterable, Mapping

from attnspec.lowering.analysis.staging import DISTANCE, PLACES
from attnspec.lowering.simplify import reduced

from attnspec.language.expr import INDICES, SIZES, Binary, Call, Expr, Number, Read, names, nodes, rewrite, substitute
from attnspec.language.limits import MAX_INT, MIN_INT
from attnspec.language.linear import Linear
from attnspec.language.ranges import Ranges
from attnspec.language.spec import Tensor

# Functions that stand in settled expressions alone.
INSIDE = "inside"  # its argument, of which it says that it was proved to be inside its axis
WITHIN = "within"  # max(min(x, last), 0) of x and a number: one instruction, with an addition before it


def settle(exprs: Iterable[Expr], tensors: Iterable[Tensor]) -> list[Expr]:
    """The same values, the indices of all their reads settled; settled ones stay as they are."""
    settler = _Settler({tensor.name: tensor for tensor in tensors})
    return [rewrite(expr, settler.change) for expr in exprs]


def settle_indices(tensor: Tensor, indices: Iterable[Expr], tensors: Iterable[Tensor]) -> list[Expr]:
    """Indices of one tensor, and those of the reads that they are made of."""
    settler = _Settler({tensor.name: tensor for tensor in tensors})
    return settler.indices(tensor, [rewrite(index, settler.change) for index in indices])


class _Settler:
    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.ranges, self.untrusting = Ranges(tensors), Ranges(tensors, trusts=False)

    def change(self, at: Expr) -> Expr:
        """A node whose operands are settled."""
        if not isinstance(at, Read) or at.tensor not in self.tensors:
            return at
        return Read(at.tensor, tuple(self.indices(self.tensors[at.tensor], at.indices)), at.kind, at.span, at.label)

    def indices(self, tensor: Tensor, indices: Iterable[Expr]) -> list[Expr]:
        """Indices of a tensor, one an axis."""
        return [self.index(index, extent) for index, extent in zip(indices, tensor.shape, strict=True)]

    def index(self, index: Expr, extent: Expr) -> Expr:
        """One index."""
        if isinstance(index, Call) and index.function == INSIDE:
            return index
        index = rewrite(index, self.moved)
        spelled = _from_zero(index)  # the whole index alone: of a part, others may use what is clamped at one end
        return Call(INSIDE, (spelled,), "int", index.span) if self.is_inside(index, extent) else spelled

    def moved(self, at: Expr) -> Expr:
        """clamp(x, -5, 5) + 5 as clamp(x + 5, 0, 10), where nothing leaves 32 bits: an addition before a clamp is one
        instruction with it, and a clamp from 0 on is one too."""
        match at:
            case Binary(op="+" | "-", left=Call(function="min" | "max") as clamp, right=Number(value=int() as value)):
                moved = self._moved(clamp, value if at.op == "+" else -value)
                return at if moved is None else moved
        return at

    def _moved(self, clamp: Expr, value: int) -> Expr | None:
        """clamp + value, the addition within."""
        match clamp:
            case Call(function="min" | "max", arguments=(inner, Number(value=int() as end))) if _fits(end + value):
                moved = self._moved(inner, value)
                return None if moved is None else Call(clamp.function, (moved, Number(end + value, "int")), "int", clamp.span)
            case Call(function="min" | "max"):
                return None
        total = reduced(Binary("+" if value >= 0 else "-", clamp, Number(abs(value), "int"), "int", clamp.span))
        return total if self.fits(total) else None

    def fits(self, total: Expr) -> bool:
        """Proved: of elements that there are, a sum does not leave 32 bits."""
        plain = substitute(total, DISTANCE.name, PLACES["distance"])
        reads = {at.tensor for at in nodes(plain) if isinstance(at, Read)}
        if not (names(plain) <= {*INDICES, *SIZES} and reads <= self.tensors.keys()):
            return False
        found = self.ranges.of(plain)
        return bool(found.lows and found.highs)

    def is_inside(self, index: Expr, extent: Expr) -> bool:
        """Proved: the index is one of an axis whose size is a number."""
        size, found = self.untrusting.of(extent).number, self.untrusting.of(index)
        shifts = [at for at in nodes(index) if isinstance(at, Binary) and at.op in ("<<", ">>")]
        if size is None or not all(_is_amount(at.right) for at in shifts):
            return False
        return found.is_at_least(Linear(0)) and found.is_at_most(Linear(size - 1))


def _from_zero(at: Expr) -> Expr:
    """min(max(x, 0), 5), or max(min(x, 5), 0), as within(x, 5)."""
    match at:
        case Call(function="min", arguments=(Call(function="max", arguments=(inner, Number(value=0))), Number(value=last))):
            pass
        case Call(function="max", arguments=(Call(function="min", arguments=(inner, Number(value=last))), Number(value=0))):
            pass
        case _:
            return at
    return Call(WITHIN, (inner, Number(last, "int")), "int", at.span) if at.kind == "int" and last >= 0 else at


def _is_amount(at: Expr) -> bool:
    """Whether a shift by it is defined on every target."""
    return isinstance(at, Number) and 0 <= at.value < 32


def _fits(value: int) -> bool:
    return MIN_INT <= value <= MAX_INT
