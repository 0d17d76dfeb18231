"""What is known of integer expressions before a kernel runs: ranges, order of names, `x // n` near x / n, sorted tensors.

Lengths and counts are at most what the language allows (`limits`), which keeps sums of a few positions in 32 bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from attnspec.lowering.analysis.linear import Linear, linear, of_term

from attnspec.language.expr import Binary, Call, Expr, Name, Number, Read, Search, Select
from attnspec.language.limits import MAX_BATCH, MAX_HEADS, MAX_LENGTH
from attnspec.language.spec import Spec, Tensor

Limits = tuple[float, float]

LARGEST = {
    "len_q": MAX_LENGTH,
    "len_kv": MAX_LENGTH,
    "batch": MAX_BATCH,
    "heads": MAX_HEADS,
    "kv_heads": MAX_HEADS,
    "b": MAX_BATCH - 1,
    "h": MAX_HEADS - 1,
    "hkv": MAX_HEADS - 1,
}
INT_LOW, INT_HIGH = -(2**31), 2**31 - 1
POSITIVE = {"batch", "heads", "kv_heads"}

# (smaller, larger, gap): larger - smaller >= gap. The tile at hand is not empty and ends inside its sequence.
NAMED_ORDER = (
    ("q_first", "q_last", 0),
    ("kv_first", "kv_last", 0),
    ("q_last", "len_q", 1),
    ("kv_last", "len_kv", 1),
    ("q_first", "len_q", 1),
    ("kv_first", "len_kv", 1),
    ("q", "len_q", 1),
    ("kv", "len_kv", 1),
    ("b", "batch", 1),
    ("h", "heads", 1),
    ("hkv", "kv_heads", 1),
    ("hkv", "h", 0),
    ("kv_heads", "heads", 0),
)
ORDER = tuple((Name(smaller, "int"), Name(larger, "int"), gap) for smaller, larger, gap in NAMED_ORDER)
DEEPEST = 4  # replacements tried in a row
MOST_NEAR = 4  # terms that a replacement is tried for


@dataclass(frozen=True)
class Facts:
    """Ranges of sums, from the declarations of a spec."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    proved: dict[Linear, float] = field(default_factory=dict, compare=False, repr=False)
    known: dict[Expr, Limits] = field(default_factory=dict, compare=False, repr=False)

    def least(self, form: Linear) -> float:
        """A proved lower bound of a sum; -inf where nothing is proved."""
        found = self.proved.get(form)
        if found is None:
            found = self.proved[form] = self._least(form, DEEPEST)
        return found

    def most(self, form: Linear) -> float:
        """A proved upper bound of a sum."""
        return -self.least(-form)

    def _least(self, form: Linear, depth: int) -> float:
        best = self._plain_least(ordered(form))
        if depth:
            near = [(term, count, other) for term, count in form.terms for other in self.below(term, count)]
            for term, count, other in near[:MOST_NEAR]:
                best = max(best, self._least(form - of_term(term, count) + other, depth - 1))
        return best

    def _plain_least(self, form: Linear) -> float:
        total: float = form.constant
        for term, count in form.terms:
            low, high = self.limits(term)
            total += count * (low if count > 0 else high)
        return total

    def below(self, term: Expr, count: int) -> list[Linear]:
        """Sums that are never above count * term, for terms that stay close to another sum."""
        match term:
            case Binary(op="//", left=left, right=Number(value=divisor)) if count % int(divisor) == 0:
                # n * (x // d) = (n / d) * (x - x % d), and x % d is in 0..d-1.
                share = count // int(divisor)
                return [linear(left) * share - max(0, share * (int(divisor) - 1))]
            case Search(tensor=tensor, prefix=prefix, value=Read(tensor=read, indices=(*outer, last)), side=side):
                # t[i] is itself among the elements at or below t[i], and not among those below it.
                if read == tensor and tuple(outer) == prefix and (side == "right") == (count > 0):
                    return [(linear(last) + (side == "right")) * count]
        return []

    def limits(self, expr: Expr) -> Limits:
        """Least and largest value of an int term."""
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self.term_limits(expr)
        return found

    def term_limits(self, expr: Expr) -> Limits:
        """The same, worked out."""
        match expr:
            case Number(value=value):
                return value, value
            case Name(name=name):
                return (1 if name in POSITIVE else 0), LARGEST.get(name, MAX_LENGTH - 1)
            case Read(tensor=tensor):
                return self.read_limits(tensor)
            case Search():
                return 0, INT_HIGH
            case Select(if_true=if_true, if_false=if_false):
                return hull(self.sum_limits(if_true), self.sum_limits(if_false))
            case Call(function=function, arguments=arguments):
                return call_limits(function, [self.sum_limits(at) for at in arguments if at.kind == "int"])
            case Binary(op=op, left=left, right=right):
                return binary_limits(op, self.sum_limits(left), self.sum_limits(right))
        return INT_LOW, INT_HIGH

    def sum_limits(self, expr: Expr) -> Limits:
        """Least and largest value of any int expression."""
        form = linear(expr)
        return self._plain_least(ordered(form)), -self._plain_least(ordered(-form))

    def read_limits(self, tensor: str) -> Limits:
        """Declared range of a tensor's values."""
        found = self.tensors.get(tensor)
        if found is None:
            return INT_LOW, INT_HIGH
        low = self.sum_limits(found.low)[0] if found.low is not None and found.low.kind == "int" else INT_LOW
        high = self.sum_limits(found.high)[1] if found.high is not None and found.high.kind == "int" else INT_HIGH
        return low, high

    def is_sorted(self, tensor: str) -> bool:
        """Is a tensor declared non-decreasing along its last axis?"""
        found = self.tensors.get(tensor)
        return found is not None and found.is_sorted


def facts_of(spec: Spec) -> Facts:
    """The facts that a spec declares."""
    return Facts({tensor.name: tensor for tensor in spec.tensors})


def ordered(form: Linear) -> Linear:
    """A sum that is never above the given one, with pairs of names in known order taken out."""
    counts = {term: count for term, count in form.terms if isinstance(term, Name)}
    if len(counts) < 2:
        return form
    for smaller, larger, gap in ORDER:
        pairs = min(-counts.get(smaller, 0), counts.get(larger, 0))
        if pairs > 0:
            form = form + of_term(smaller, pairs) + of_term(larger, -pairs) + pairs * gap
            counts[smaller] += pairs
            counts[larger] -= pairs
    return form


def hull(one: Limits, other: Limits) -> Limits:
    """The range that covers both."""
    return min(one[0], other[0]), max(one[1], other[1])


def call_limits(function: str, inside: list[Limits]) -> Limits:
    """min, max and abs of ranges."""
    if function == "min":
        return min(at[0] for at in inside), min(at[1] for at in inside)
    if function == "max":
        return max(at[0] for at in inside), max(at[1] for at in inside)
    if function == "abs":
        low, high = inside[0]
        return max(0, low, -high), max(-low, high)
    return INT_LOW, INT_HIGH


def binary_limits(op: str, left: Limits, right: Limits) -> Limits:
    """Products, quotients and bit operations of ranges."""
    if op == "*":
        corners = [a * b for a in left for b in right if abs(a) != inf and abs(b) != inf]
        return (min(corners), max(corners)) if len(corners) == 4 else (-inf, inf)
    if op == "//" and right[0] >= 1:
        corners = [a // b for a in left for b in right if abs(a) != inf]
        return (min(corners), max(corners)) if len(corners) == 4 else (INT_LOW, INT_HIGH)
    if op == "%" and right[0] >= 1:
        return 0, right[1] - 1
    if op == "&" and (left[0] >= 0 or right[0] >= 0):
        return 0, min(at[1] for at in (left, right) if at[0] >= 0)
    return INT_LOW, INT_HIGH
