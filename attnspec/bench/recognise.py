"""What of a variant other people's kernels have arguments for: a causal or banded mask, a soft cap, a sink a head."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnspec.language.expr import Binary, Call, Compare, Expr, Logic, Name, Number, Read
from attnspec.language.spec import Spec
from attnspec.lowering.analysis.linear import Linear, linear, of_name
from attnspec.lowering.simplify import simplify

SCORE = Name("score", "float")


@dataclass(frozen=True)
class Known:
    """A variant in the words of those kernels.

    left, right: how many keys before and after its own position a query sees, None: all of them. is_top_left: positions are
    aligned at the start. softcap: 0 without one. sink: the tensor that holds a logit a head. scale: None for a run-time one.
    """

    left: int | None = None
    right: int | None = None
    is_top_left: bool = False
    softcap: float = 0.0
    sink: str | None = None
    scale: float | None = None

    @property
    def is_causal(self) -> bool:
        """Whether keys end at the query's position."""
        return self.right == 0


def recognise(spec: Spec) -> Known | str:
    """The variant in those words, or why not."""
    cap = softcap_of(spec.score)
    if cap is None:
        return "its score statements"
    band = band_of(spec.mask)
    if isinstance(band, str):
        return band
    sink = spec.sink
    if sink is not None and not (isinstance(sink, Read) and sink.indices == (Name("h", "int"),)):
        return "its sink, which is not a tensor's element a head"
    scale = float(spec.scale.value) if isinstance(spec.scale, Number) else None
    if scale is None:
        return "a scale that is not a constant"
    left, right, is_top_left = band
    return Known(left, right, is_top_left, cap, sink.tensor if sink is not None else None, scale)


def softcap_of(score: Expr) -> float | None:
    """c of `c * tanh(score / c)`, 0 for the score as it is, None for anything else."""
    match score:
        case Name(name="score"):
            return 0.0
        case Binary(op="*", left=Number(value=cap), right=Call(function="tanh", arguments=(inner,))) if is_over(inner, cap):
            return float(cap)
        case Binary(op="*", left=Call(function="tanh", arguments=(inner,)), right=Number(value=cap)) if is_over(inner, cap):
            return float(cap)
    return None


def is_over(inner: Expr, cap: float) -> bool:
    """Whether an expression is score / cap."""
    match inner:
        case Binary(op="/", left=Name(name="score"), right=Number(value=value)):
            return value == cap
        case Binary(op="*", left=Name(name="score"), right=Number(value=value)):
            return value == 1.0 / cap
    return False


def band_of(mask: Expr | None) -> tuple[int | None, int | None, bool] | str:
    """(left, right, whether positions are aligned at the start) of a mask that is a band along the diagonal; else why not."""
    if mask is None:
        return None, None, False
    left: int | None = None
    right: int | None = None
    aligned: set[bool] = set()
    for part in conjuncts(simplify(mask)):
        bound = bound_of(part)
        if bound is None:
            return "its mask, which is not a band along the diagonal"
        side, distance, is_top_left = bound
        aligned.add(is_top_left)
        if side == "right":
            right = distance if right is None else min(right, distance)
        else:
            left = distance if left is None else min(left, distance)
    if len(aligned) > 1:
        return "its mask, with one end aligned at the start and one at the end"
    return left, right, aligned == {True}


def conjuncts(mask: Expr) -> Iterator[Expr]:
    """What is joined by `and`."""
    if isinstance(mask, Logic) and mask.op == "and":
        yield from conjuncts(mask.left)
        yield from conjuncts(mask.right)
    else:
        yield mask


def bound_of(part: Expr) -> tuple[str, int, bool] | None:
    """(left or right, keys seen on that side, whether aligned at the start) of one comparison."""
    if not isinstance(part, Compare) or part.left.kind != "int" or part.op not in ("<", "<=", ">", ">="):
        return None
    form = linear(part.left) - linear(part.right)
    if part.op in (">", ">="):
        form = -form
    form = form + (1 if part.op in ("<", ">") else 0)  # now: form <= 0
    for is_top_left in (True, False):
        distance = of_name("kv") - own_position(is_top_left)
        for side, ahead in (("right", distance), ("left", -distance)):
            rest = form - ahead
            if not rest.terms:
                return side, -rest.constant, is_top_left
    return None


def own_position(is_top_left: bool) -> Linear:
    """`q` or `qpos`."""
    return of_name("q") if is_top_left else of_name("q") + of_name("len_kv") - of_name("len_q")
