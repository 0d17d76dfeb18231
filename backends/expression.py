"""Typed expressions as source text of any target: one named value a line, shared values once.

A `Dialect` says how each operation is spelled; nothing here knows a target. A value gets a line of its own if a person
named it, if it is used more than once, or if the line would grow too long; the rest stands inline.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from attnspec.backends.source import Names, Source, short_place

from attnspec.language.expr import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Logic,
    Name,
    Number,
    Read,
    Search,
    Select,
    Truth,
    Unary,
    children,
    nodes,
)
from attnspec.language.source import NOWHERE

LEVELS = {"+": 1, "-": 1, "*": 2}  # operators that bind by the rules of every language we write
MAX_INLINE = 72  # characters of an expression that may stand inline in another
USER = "u_"  # prefix of every identifier that comes from a person


@dataclass(frozen=True)
class Dialect:
    """How a target spells things.

    spellings: by `key_of` a node, a template with one `{}` an operand: "int //": "floor_divide({}, {})". A template is a call
    (it starts with a name and an open parenthesis, and ends with the closing one) or is put in parentheses where it is an
    operand. name, number, truth: leaves. read, search: the node and its operands' text.
    """

    spellings: Mapping[str, str]
    name: Callable[[Name], str]
    number: Callable[[Number], str]
    read: Callable[[Read, Sequence[str]], str]
    search: Callable[[Search, Sequence[str]], str]
    truth: Callable[[Truth], str] = field(default=lambda node: str(node.value))


@dataclass(frozen=True)
class Text:
    """An expression in source form; `is_atom` if it can be an operand as it stands. level: of LEVELS, 0 if not of them."""

    text: str
    is_atom: bool
    level: int = 0

    @property
    def operand(self) -> str:
        """The text, in parentheses if it needs them."""
        return self.text if self.is_atom else f"({self.text})"

    def beside(self, level: int) -> str:
        """The text as an operand of an operator that binds at a level, or as tightly as the next."""
        return self.text if self.level >= level else self.operand


def key_of(expr: Expr) -> str:
    """The key of a node in `Dialect.spellings`, "KIND OP": the kind is that of the operands in a comparison."""
    match expr:
        case Unary(op=op, kind=kind):
            return f"{kind} neg" if op == "-" else "bool not"
        case Binary(op=op, kind=kind):
            return f"{kind} {op}"
        case Compare(op=op, left=left):
            return f"{left.kind} {op}"
        case Logic(op=op):
            return f"bool {op}"
        case Select(kind=kind):
            return f"{kind} select"
        case Call(function=function, kind=kind):
            return f"{'float' if function == 'floor' else kind} {function}"
        case Convert():
            return "int to float"
        case _:
            raise TypeError(type(expr).__name__)


def write_values(source: Source, dialect: Dialect, exprs: Iterable[Expr], names: Names | None = None) -> list[str]:
    """Write the lines that compute the expressions; returns the text of each result, whole: not for use as an operand.

    names: identifiers already taken in the scope; those of the new lines are added.
    """
    wanted = tuple(exprs)
    names = names or Names()
    uses = count_uses(wanted)
    done: dict[Expr, Text] = {}

    def name_it(at: Expr, text: Text) -> Text:
        name = names.new(at.label, USER) if at.label else names.new(str(len(names.taken) + 1), "v")
        comment = "" if at.span is NOWHERE else f"  # {short_place(at.span)}"
        source.line(f"{name} = {text.text}{comment}", at.span)
        return Text(name, True)

    def visit(at: Expr) -> Text:
        if at not in done:
            operands = [visit(child) for child in children(at)]
            if sum(len(operand.text) for operand in operands) > MAX_INLINE:
                operands = [shorten(child, operand) for child, operand in zip(children(at), operands)]
            text = spell(dialect, at, operands)
            is_leaf = isinstance(at, Number | Truth | Name)
            done[at] = name_it(at, text) if not is_leaf and (at.label or uses[at] > 1) else text
        return done[at]

    def shorten(child: Expr, operand: Text) -> Text:
        if len(operand.text) * 2 <= MAX_INLINE or operand.text.isidentifier():
            return operand
        done[child] = name_it(child, operand)
        return done[child]

    return [visit(expr).text for expr in wanted]


def count_uses(exprs: Sequence[Expr]) -> Counter[Expr]:
    """How often each distinct node is an operand, or one of the results."""
    uses = Counter(exprs)
    seen: set[Expr] = set()
    for expr in exprs:
        for at in nodes(expr):
            if at not in seen:
                seen.add(at)
                uses.update(children(at))
    return uses


def spell(dialect: Dialect, at: Expr, operands: Sequence[Text]) -> Text:
    """One node over its operands' texts."""
    match at:
        case Number():
            number = dialect.number(at)
            return Text(number, not number.startswith("-"))
        case Truth():
            return Text(dialect.truth(at), True)
        case Name():
            return Text(dialect.name(at), True)
        case Read():
            return Text(dialect.read(at, [operand.text for operand in operands]), True)
        case Search():
            return Text(dialect.search(at, [operand.text for operand in operands]), True)
    template = dialect.spellings[key_of(at)]
    if is_call(template):
        return Text(template.format(*(operand.text for operand in operands)), True)
    level = LEVELS.get(template[3:-3], 0) if template.startswith("{} ") and template.endswith(" {}") else 0
    if level:
        left, right = operands
        return Text(template.format(left.beside(level), right.beside(level + 1)), False, level)
    return Text(template.format(*(operand.operand for operand in operands)), False)


def is_call(template: str) -> bool:
    """Whether a template is one call, so that its operands and itself need no parentheses."""
    head, paren, rest = template.partition("(")
    return bool(paren) and head.replace(".", "").isidentifier() and rest.endswith(")") and rest.count(")") == 1
