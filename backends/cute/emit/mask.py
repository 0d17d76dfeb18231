"""The mask as 32-bit words, a bit a key (in the backward, a query): one word operation does the work of 32 elements.

A comparison of the key's position with a value of the row is a word in closed form; `and`, `or`, `not` act on words; what is
left (elements of tensors, remainders) is evaluated key by key and gathered into a word, so that one condition at a time is alive.
"""

from attnspec.backends.cute.emit.dialect import dialect_of
from attnspec.backends.expression import write_values
from attnspec.backends.source import Names, Source
from attnspec.lowering.analysis.sorted_masks import MIRROR

from attnspec.language.expr import Binary, Compare, CompareOp, Expr, Logic, Name, Number, Unary, names
from attnspec.language.spec import Spec

WORDS = {"<": "keys_below({}, first)", ">=": "~keys_below({}, first)", "==": "keys_at({}, first)", "!=": "~keys_at({}, first)"}


def solved_for(mask: Expr, axis: str = "kv") -> Expr:
    """The mask with comparisons turned into `kv < bound`, `kv >= bound`, `kv == bound` or `kv != bound` where they can be.

    Bounds without the key are then values of the row, computed once. axis: the position that differs between bits, `kv` or `q`.
    """
    match mask:
        case Logic(op=op, left=left, right=right):
            return Logic(op, solved_for(left, axis), solved_for(right, axis), mask.span, mask.label)
        case Unary(op="not", operand=operand):
            return Unary("not", solved_for(operand, axis), "bool", mask.span, mask.label)
        case Compare(op=op, left=left, right=right) if left.kind == "int":
            found = _solve(left, right, op, axis) or _solve(right, left, MIRROR[op], axis)
            return _bounded(mask, *found, axis) if found else mask
    return mask


def _solve(side: Expr, other: Expr, op: CompareOp, axis: str) -> tuple[CompareOp, Expr] | None:
    """`side op other` as (op, bound) of the key: what is added to the key moves across. None if the key does not stand alone.

    Sums that fit 32 bits on one side of a comparison fit on the other: positions are below 2^30 (see `limits` of the language).
    """
    if axis in names(other):
        return None
    match side:
        case Name(name=name) if name == axis:
            return op, other
        case Binary(op="+", left=left, right=right):
            key, rest = (left, right) if axis in names(left) else (right, left)
            return _solve(key, Binary("-", other, rest, "int"), op, axis) if axis not in names(rest) else None
        case Binary(op="-", left=left, right=right) if axis not in names(right):
            return _solve(left, Binary("+", other, right, "int"), op, axis)
        case Binary(op="-", left=left, right=right) if axis not in names(left):
            return _solve(right, Binary("-", left, other, "int"), MIRROR[op], axis)
    return None


def _bounded(at: Compare, op: CompareOp, bound: Expr, axis: str) -> Expr:
    if op in ("<=", ">"):
        op, bound = ("<" if op == "<=" else ">="), _next(bound)
    return Compare(op, Name(axis, "int"), bound, at.span, at.label)


def _next(bound: Expr) -> Expr:
    if isinstance(bound, Number):
        return Number(int(bound.value) + 1, "int")
    return Binary("+", bound, Number(1, "int"), "int")


def write_mask(source: Source, spec: Spec, mask: Expr, near: str) -> None:
    """`visible_keys(q, first, at, row)` of a mask solved for the key, its row values hoisted.

    near: the further parameter, if any, of functions that read staged values.
    """
    source.blank(2)
    with source.block(f"def visible_keys(q, first, at, row{near}):"):
        source.docstring("A bit for each key that is asked for, from `first` on: whether the query sees it.")
        source.line(f"return {_Words(source, spec, 'kv', near).word(mask)}")


def write_query_mask(source: Source, spec: Spec, mask: Expr) -> None:
    """`visible_queries(kv, first, at, key)` of a mask solved for the query, its key values hoisted."""
    source.blank(2)
    with source.block("def visible_queries(kv, first, at, key):"):
        source.docstring("A bit for each query that is asked for, from `first` on: whether it sees the key.")
        source.line(f"return {_Words(source, spec, 'q').word(mask)}")


def gathered(mask: Expr, axis: str = "kv") -> frozenset[Expr]:
    """Conditions of a solved mask that are evaluated for every key, since no word in closed form has them."""
    match mask:
        case Logic(left=left, right=right) if axis in names(mask):
            return gathered(left, axis) | gathered(right, axis)
        case Unary(op="not", operand=operand) if axis in names(mask):
            return gathered(operand, axis)
    return frozenset() if axis not in names(mask) or _is_word(mask, axis) else frozenset([mask])


def _is_word(at: Expr, axis: str) -> bool:
    return isinstance(at, Compare) and at.left == Name(axis, "int") and axis not in names(at.right) and at.op in WORDS


class _Words:
    """Writes a line for each atom of a mask, once, and spells the whole as word operations on their names."""

    def __init__(self, source: Source, spec: Spec, axis: str, near: str = "") -> None:
        self.source, self.spec, self.axis, self.near = source, spec, axis, near
        self.done: dict[Expr, str] = {}

    def word(self, at: Expr) -> str:
        """Text of the word of a boolean expression, fit to be an operand."""
        if self.axis in names(at):
            match at:
                case Logic(op=op, left=left, right=right):
                    return f"({self.word(left)} {'&' if op == 'and' else '|'} {self.word(right)})"
                case Unary(op="not", operand=operand):
                    return f"~{self.word(operand)}"
        if at not in self.done:
            name = f"{'keys' if self.axis == 'kv' else 'queries'}{len(self.done)}"
            self.source.line(f"{name} = {self._atom(at, name)}", at.span)
            self.done[at] = name
        return self.done[at]

    def _atom(self, at: Expr, name: str) -> str:
        axis = self.axis
        if axis not in names(at):
            return f"all_keys({self._value(at)})"
        if isinstance(at, Compare) and _is_word(at, axis):
            return WORDS[at.op].format(self._value(at.right))
        with self.source.block(f"def is_in_{name}({axis}{self.near}):"):
            self.source.line(f"return {self._value(at)}")
        return f"keys_where(is_in_{name}, first{self.near})"

    def _value(self, value: Expr) -> str:
        taken = Names()
        taken.taken.update(self.done.values())
        return write_values(self.source, dialect_of(self.spec), [value], taken)[0]
