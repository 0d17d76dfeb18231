"""The ends of declared ranges (`in LO..HI`) at the sizes of a call."""

from collections.abc import Mapping

from attnspec.language.expr import Binary, Call, Compare, Convert, Expr, Logic, Name, Number, Select, Truth, Unary, nodes
from attnspec.language.fold import FoldError, Scalar, arithmetic, call, checked, compare
from attnspec.language.spec import Tensor


def ends_at(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[Scalar, Scalar] | None:
    """Both ends, of the tensor's kind; None where none are declared, or where they have no value at these sizes."""
    if tensor.low is None or tensor.high is None:
        return None
    try:
        return number_at(tensor.low, sizes), number_at(tensor.high, sizes)
    except FoldError:
        return None


def number_at(expr: Expr, sizes: Mapping[str, int]) -> Scalar:
    """The value of an expression in sizes and constants; FoldError where it has none."""
    done: dict[Expr, Scalar] = {}
    for at in nodes(expr):
        done[at] = _step(at, sizes, done)
    return done[expr]


def _step(at: Expr, sizes: Mapping[str, int], done: Mapping[Expr, Scalar]) -> Scalar:
    match at:
        case Number() | Truth():
            return at.value
        case Name():
            return sizes[at.name]
        case Convert():
            return float(done[at.operand])
        case Unary():
            return not done[at.operand] if at.op == "not" else checked(-done[at.operand])
        case Binary():
            return arithmetic(at.op, done[at.left], done[at.right])
        case Compare():
            return compare(at.op, done[at.left], done[at.right])
        case Logic():
            pick = all if at.op == "and" else any
            return pick((done[at.left], done[at.right]))
        case Select():
            return done[at.if_true if done[at.condition] else at.if_false]
        case Call():
            return call(at.function, *(done[argument] for argument in at.arguments))
    raise FoldError("not-a-size", "a range rests on sizes and constants alone")
