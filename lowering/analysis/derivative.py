"""Derivatives of the score and the sink, as expressions that share values with what they are derivatives of.

Where a function has a corner: `abs` gives 0 at 0 (as torch); `min` and `max` follow the left operand at ties (torch gives
each half); if-else follows the branch taken; `floor`, `//` and comparisons give 0. `sqrt` at 0 and `log` at 0 give inf, as
torch does, unless an if-else keeps that branch from being taken: then the branch not taken adds exactly 0, never 0 * inf.
"""

import math
from collections.abc import Callable

from attnspec.lowering.analysis.addresses import SUMMED, address_of, reduced_indices
from attnspec.lowering.analysis.analysed import Derivative, LearnedGradient
from attnspec.lowering.analysis.words import words
from attnspec.lowering.simplify import simplify

from attnspec.language.expr import Binary, Call, Compare, Expr, Name, Number, Read, Select, Unary, nodes
from attnspec.language.spec import Spec

ZERO = Number(0.0, "float")
ONE = Number(1.0, "float")
SCORE = Name("score", "float")
LEAST = 2.0**-126  # constants are not folded into numbers that f32 cannot hold in full


def derivative(spec: Spec) -> Derivative:
    """d(score)/d(score in), and the partials at every place where a learned tensor is read."""
    by_score = simplify(differentiate(spec.score, SCORE))
    learned = gradients(spec.score, spec, SUMMED)
    sink = gradients(spec.sink, spec, SUMMED[:3]) if spec.sink is not None else ()  # a sink has no kv
    return Derivative(by_score, learned, sink, reason_of(by_score, learned, sink))


def gradients(expr: Expr, spec: Spec, among: tuple[str, ...]) -> tuple[LearnedGradient, ...]:
    """One entry for each distinct read of a learned tensor that the value depends on."""
    names = {tensor.name for tensor in spec.learned}
    places = [at for at in nodes(expr) if isinstance(at, Read) and at.tensor in names]
    found = []
    for place in places:
        partial = simplify(differentiate(expr, place))
        if partial != ZERO:
            address, _ = address_of(place.indices)
            over = reduced_indices(place.indices, among)
            found.append(LearnedGradient(place.tensor, place.indices, partial, address, over))
    return tuple(found)


def differentiate(expr: Expr, by: Expr) -> Expr:
    """d(expr)/d(by) for a float name or a float read; structural zeros are left out, so nothing is multiplied by 0."""
    done: dict[Expr, Expr] = {}

    def of(at: Expr) -> Expr:
        if at not in done:
            done[at] = ONE if at == by else ZERO if at.kind != "float" else rule(at, of)
        return done[at]

    return of(expr)


def rule(at: Expr, of: Callable[[Expr], Expr]) -> Expr:
    """The chain rule at one node."""
    match at:
        case Unary(operand=operand):
            return negated(of(operand))
        case Binary(op="+", left=left, right=right):
            return added(of(left), of(right))
        case Binary(op="-", left=left, right=right):
            return added(of(left), negated(of(right)))
        case Binary(op="*", left=left, right=right):
            return added(times(right, of(left)), times(left, of(right)))
        case Binary(op="/", left=left, right=right):
            return divided(added(of(left), negated(times(at, of(right)))), right)
        case Binary(op="%", left=left, right=right):
            return added(of(left), negated(times(Binary("//", left, right, "float"), of(right))))
        case Select(condition=condition, if_true=if_true, if_false=if_false):
            return chosen(condition, of(if_true), of(if_false))
        case Call():
            return call_rule(at, of)
    return ZERO


def call_rule(at: Call, of: Callable[[Expr], Expr]) -> Expr:
    """The chain rule at a function; the function's own value is used where it can be."""
    first = at.arguments[0]
    inner = of(first)
    match at.function:
        case "min":
            return chosen(Compare("<=", first, at.arguments[1]), inner, of(at.arguments[1]))
        case "max":
            return chosen(Compare(">=", first, at.arguments[1]), inner, of(at.arguments[1]))
        case "abs":
            below = chosen(Compare("<", first, ZERO), negated(inner), ZERO)
            return chosen(Compare(">", first, ZERO), inner, below)
        case "exp":
            return times(at, inner)
        case "exp2":
            return times(times(Number(math.log(2), "float"), at), inner)
        case "log":
            return divided(inner, first)
        case "tanh":
            return times(minus(ONE, product(at, at)), inner)
        case "sigmoid":
            return times(product(at, minus(ONE, at)), inner)
        case "sqrt":
            return times(Binary("/", Number(0.5, "float"), at, "float"), inner)
        case "rsqrt":
            cube = product(product(at, at), at)
            return times(product(Number(-0.5, "float"), cube), inner)
    return ZERO


def product(left: Expr, right: Expr) -> Expr:
    """A product as it stands."""
    return Binary("*", left, right, "float")


def minus(left: Expr, right: Expr) -> Expr:
    """A difference as it stands."""
    return Binary("-", left, right, "float")


def added(left: Expr, right: Expr) -> Expr:
    """A sum of derivatives."""
    if left == ZERO:
        return right
    if right == ZERO:
        return left
    if isinstance(right, Unary):
        return minus(left, right.operand)
    return Binary("+", left, right, "float")


def negated(value: Expr) -> Expr:
    """A derivative with its sign changed."""
    match value:
        case Number(value=number):
            return ZERO if value == ZERO else Number(-number, "float")
        case Unary(operand=operand):
            return operand
    return Unary("-", value, "float")


def times(factor: Expr, value: Expr) -> Expr:
    """factor * derivative, with the factor inside a choice: a branch that adds 0 never meets an infinite factor."""
    match value:
        case Number() if value in (ZERO, ONE):
            return ZERO if value == ZERO else factor
        case Select(condition=condition, if_true=if_true, if_false=if_false):
            return chosen(condition, times(factor, if_true), times(factor, if_false))
        case Unary(operand=operand):
            return negated(times(factor, operand))
    one, rest = constant_part(factor)
    other, more = constant_part(value)
    constant = one * other
    if not math.isfinite(constant) or abs(constant) < LEAST:
        return product(factor, value)
    both = rest if more is None else more if rest is None else product(rest, more)
    if both is None:
        return Number(constant, "float")
    if abs(constant) == 1:
        return both if constant > 0 else Unary("-", both, "float")
    return product(Number(constant, "float"), both)


def constant_part(value: Expr) -> tuple[float, Expr | None]:
    """A factor as a constant and the rest of it (None: 1), so that the constants of a chain meet."""
    match value:
        case Number(value=number):
            return float(number), None
        case Binary(op="*", left=Number(value=number), right=right):
            return float(number), right
        case Binary(op="*", left=left, right=Number(value=number)):
            return float(number), left
    return 1.0, value


def divided(value: Expr, divisor: Expr) -> Expr:
    """derivative / divisor, inside a choice as in `times`."""
    match value, divisor:
        case Number(), _ if value == ZERO:
            return ZERO
        case _, Number(value=number) if number and LEAST < abs(1 / number) < math.inf:
            return times(Number(1 / number, "float"), value)
    match value:
        case Select(condition=condition, if_true=if_true, if_false=if_false):
            return chosen(condition, divided(if_true, divisor), divided(if_false, divisor))
        case Unary(operand=operand):
            return negated(divided(operand, divisor))
    return Binary("/", value, divisor, "float")


def chosen(condition: Expr, if_true: Expr, if_false: Expr) -> Expr:
    """A choice of derivatives."""
    return if_true if if_true == if_false else Select(condition, if_true, if_false, "float")


def reason_of(by_score: Expr, learned: tuple[LearnedGradient, ...], sink: tuple[LearnedGradient, ...]) -> str:
    """The derivative in words."""
    parts = [f"d(score out)/d(score in) = {words(by_score)}"]
    for name, entries in (("score out", learned), ("sink", sink)):
        for entry in entries:
            place = words(Read(entry.tensor, entry.indices, "float"))
            over = f", summed over {', '.join(entry.reduced)}" if entry.reduced else ""
            parts.append(f"d({name})/d({place}) = {words(entry.partial)}{over}")
    return "; ".join(parts)
