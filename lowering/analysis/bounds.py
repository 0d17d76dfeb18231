"""Range of the score, by interval arithmetic, and whether softmax can do without a running maximum.

Every step is widened by the rounding of f32 and of the approximate functions, so the range holds for what a kernel computes.
A branch of the score that is -inf is left out: it means masked, and exp gives it 0 whatever the midpoint is.
"""

import math
import struct
from collections.abc import Callable
from math import inf

from attnspec.lowering.analysis.analysed import Bounds
from attnspec.lowering.analysis.facts import Facts, Limits, facts_of, hull

from attnspec.language.expr import Binary, Call, Convert, Expr, Name, Number, Read, Select, Unary
from attnspec.language.limits import MAX_LENGTH
from attnspec.language.spec import Spec

WIDER = 2.0**-20  # relative widening of a step: f32 rounding and the error of exp and log with room to spare
HEADROOM_LOG2 = 24  # |v| up to 2**24 keeps sums of products finite; fp16 ends at 2**16, and activations far below
LONGEST_ROW = 2**30  # no longer row is looked at
F32_LOG2 = 127
# Exponents of the least and the largest power of two that are normal numbers.
NORMAL_LOG2 = {"bf16": (-126, 127), "fp16": (-14, 15)}
EVERY: Limits = (-inf, inf)


def bounds(spec: Spec) -> Bounds:
    """The range of the score, and the proof (or why there is none) that no row maximum is needed."""
    low, high = ScoreRange(facts_of(spec)).of(spec.score)
    if not (math.isfinite(low) and math.isfinite(high)):
        side = "above or below" if low == -inf and high == inf else "below" if low == -inf else "above"
        return Bounds(low, high, inf, True, 0, f"the score is not bounded {side}: rows need their maximum")
    half = (high - low) / 2 * math.log2(math.e)
    return judged(spec, low, high, half)


def judged(spec: Spec, low: float, high: float, half: float) -> Bounds:
    """The verdict on a bounded score: DESIGN section 5."""
    least, most = NORMAL_LOG2[spec.dtype]
    extent = f"the score is in [{low:.6g}, {high:.6g}], {half:.6g} log2 units to either side of the middle"
    if -half < least or half > most:
        why = f"{extent}: 2^-{half:.6g} is no normal {spec.dtype} number, rows need their maximum"
        return Bounds(low, high, half, True, 0, why)
    room = F32_LOG2 - HEADROOM_LOG2 - half
    longest = int(min(LONGEST_ROW, 2.0 ** math.floor(room))) if room > 0 else 0
    if longest < MAX_LENGTH:  # a kernel must be right for every length that it may be called with
        why = f"{extent}: sums stay finite in f32 only up to {longest} keys, rows need their maximum"
        return Bounds(low, high, half, True, longest, why)
    proof = (
        f"{extent}: 2^-{half:.6g} and 2^{half:.6g} are normal in {spec.dtype}, sums stay finite in f32 up to {longest} keys "
        f"while |v| < 2^{HEADROOM_LOG2}: no row maximum is needed"
    )
    if spec.sink is not None:
        proof += "; the sink joins once a row, at the end, against the larger of it and the midpoint"
    return Bounds(low, high, half, False, longest, proof)


class ScoreRange:
    """Ranges of float expressions, one per distinct node."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.done: dict[Expr, Limits] = {}

    def of(self, expr: Expr) -> Limits:
        """Least and largest value; NaN is on neither side, so it is never excluded."""
        if expr not in self.done:
            self.done[expr] = self.node(expr)
        return self.done[expr]

    def node(self, at: Expr) -> Limits:
        """One node."""
        match at:
            case Number(value=value):
                return rounded((value, value))
            case Convert(operand=operand):
                return wider(self.facts.sum_limits(operand))
            case Read(tensor=tensor):
                return self.read(tensor)
            case Unary(operand=operand):
                low, high = self.of(operand)
                return -high, -low
            case Binary(op=op, left=left, right=right):
                return wider(self.binary(op, left, right))
            case Select(if_true=if_true, if_false=if_false):
                kept = [branch for branch in (if_true, if_false) if branch != Number(-inf, "float")]
                found = [self.of(branch) for branch in kept]
                return hull(found[0], found[-1]) if found else (-inf, -inf)
            case Call():
                return self.call(at)
            case Name():
                return EVERY
        return EVERY

    def read(self, tensor: str) -> Limits:
        """Declared range of an input; a learned tensor moves, so what it was declared with proves nothing."""
        found = self.facts.tensors.get(tensor)
        if found is None or found.is_learned:
            return EVERY
        low = self.end(found.low)[0] if found.low is not None else -inf
        high = self.end(found.high)[1] if found.high is not None else inf
        return wider((low, high))

    def end(self, expr: Expr) -> Limits:
        """A declared end, int or float."""
        return self.facts.sum_limits(expr) if expr.kind == "int" else self.of(expr)

    def binary(self, op: str, left: Expr, right: Expr) -> Limits:
        """Float arithmetic on ranges."""
        one, other = self.of(left), self.of(right)
        if op == "+":
            return finite_sum(one[0], other[0], -inf), finite_sum(one[1], other[1], inf)
        if op == "-":
            return finite_sum(one[0], -other[1], -inf), finite_sum(one[1], -other[0], inf)
        if op == "*":
            return square(one) if left == right else corners(one, other, lambda a, b: a * b)
        if op == "/" and (other[0] > 0 or other[1] < 0):
            return corners(one, other, lambda a, b: a / b)
        return EVERY

    def call(self, at: Call) -> Limits:
        """Functions of ranges."""
        inside = [self.of(argument) for argument in at.arguments]
        low, high = inside[0]
        match at.function:
            case "min":
                return min(low, inside[1][0]), min(high, inside[1][1])
            case "max":
                return max(low, inside[1][0]), max(high, inside[1][1])
            case "abs":
                return max(0.0, low, -high), max(-low, high)
            case "tanh":
                return max(-1.0, below(math.tanh(low))), min(1.0, above(math.tanh(high)))
            case "sigmoid":
                return max(0.0, below(sigmoid(low))), min(1.0, above(sigmoid(high)))
            case "exp":
                return max(0.0, below(power(math.e, low))), above(power(math.e, high))
            case "exp2":
                return max(0.0, below(power(2.0, low))), above(power(2.0, high))
            case "log" if low > 0:
                return wider((math.log(low), math.log(high) if high < inf else inf))
            case "sqrt":
                return below(math.sqrt(max(0.0, low))), above(math.sqrt(high) if 0 <= high < inf else inf)
            case "rsqrt" if low > 0:
                return (below(high**-0.5) if high < inf else 0.0), above(low**-0.5)
        return EVERY


def below(value: float) -> float:
    """A little less."""
    return value - abs(value) * WIDER - 1e-37 if math.isfinite(value) else value


def above(value: float) -> float:
    """A little more."""
    return -below(-value)


def wider(limits: Limits) -> Limits:
    """A range with room for rounding."""
    return below(limits[0]), above(limits[1])


def rounded(limits: Limits) -> Limits:
    """A constant as f32: exact where f32 holds it."""
    try:
        is_exact = struct.unpack("f", struct.pack("f", limits[0]))[0] == limits[0]
    except OverflowError:
        return EVERY
    return limits if is_exact else wider(limits)


def finite_sum(one: float, other: float, otherwise: float) -> float:
    """A sum; inf - inf proves nothing."""
    total = one + other
    return otherwise if math.isnan(total) else total


def corners(one: Limits, other: Limits, operation: Callable[[float, float], float]) -> Limits:
    """Products and quotients are extreme at corners; 0 * inf and inf / inf prove nothing."""
    try:
        values = [operation(a, b) for a in one for b in other]
    except (OverflowError, ZeroDivisionError):
        return EVERY
    return EVERY if any(map(math.isnan, values)) else (min(values), max(values))


def square(limits: Limits) -> Limits:
    """x * x."""
    low, high = max(0.0, limits[0], -limits[1]), max(-limits[0], limits[1])
    return low * low, high * high


def sigmoid(value: float) -> float:
    """The logistic function, without overflow."""
    return 0.5 * (1 + math.tanh(value / 2))


def power(base: float, exponent: float) -> float:
    """base ** exponent, inf where it overflows."""
    try:
        return base**exponent
    except OverflowError:
        return inf
