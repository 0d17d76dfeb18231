"""From Lark's parse tree of one statement to syntax nodes with spans."""

from dataclasses import replace
from typing import Any

from lark import Token
from lark import Tree as Parsed
from lark.visitors import Transformer_NonRecursive, v_args

from attnspec.language import syntax as s
from attnspec.language.faults import Faults
from attnspec.language.limits import MAX_NAME
from attnspec.language.source import Source, Span


@v_args(inline=True)
class Build(Transformer_NonRecursive):
    """One method a rule alias of grammar.lark. Not recursive: a long sum is a deep tree."""

    def __init__(self, source: Source, offset: int, faults: Faults) -> None:
        super().__init__()
        self.source, self.offset, self.faults = source, offset, faults

    def between(self, first: Any, last: Any) -> Span:
        return Span(self.source, self.start(first), self.end(last))

    def start(self, at: Any) -> int:
        return (at.start_pos or 0) + self.offset if isinstance(at, Token) else at.span.start

    def end(self, at: Any) -> int:
        return (at.end_pos or 0) + self.offset if isinstance(at, Token) else at.span.end

    def word(self, token: Token) -> s.Word:
        return s.Word(str(token), self.between(token, token))

    # Expressions.

    def integer(self, token: Token) -> s.Literal:
        # Python refuses to read thousands of digits; any value past 32 bits is refused by the checker.
        value = 2**63 if len(token) > MAX_NAME else int(token, 0 if token[:2] in ("0x", "0b") else 10)
        return s.Literal(value, self.between(token, token))

    def real(self, token: Token) -> s.Literal:
        return s.Literal(float(token), self.between(token, token))

    def flag(self, token: Token) -> s.Flag:
        return s.Flag(token == "true", self.between(token, token))

    def nothing(self, token: Token) -> s.Nothing:
        return s.Nothing(self.between(token, token))

    def ident(self, token: Token) -> s.Ident:
        return s.Ident(str(token), self.between(token, token))

    def apply(self, name: Token, arguments: tuple | None, close: Token) -> s.Apply:
        return s.Apply(self.word(name), arguments or (), self.between(name, close))

    def element(self, name: Token, indices: tuple, close: Token) -> s.Element:
        return s.Element(self.word(name), indices, self.between(name, close))

    def grouped(self, open_: Token, inner: s.SyntaxExpr, close: Token) -> s.SyntaxExpr:
        return replace(inner, span=self.between(open_, close))

    def arguments(self, *items: s.SyntaxExpr) -> tuple:
        return items

    def prefix(self, op: Token, operand: s.SyntaxExpr) -> s.Prefix:
        return s.Prefix(str(op), operand, self.between(op, operand))

    def infix(self, left: s.SyntaxExpr, op: Token, right: s.SyntaxExpr) -> s.Infix:
        return s.Infix(str(op), left, right, self.between(left, right))

    def or_bits(self, left: s.SyntaxExpr, right: s.SyntaxExpr) -> s.Infix:
        return s.Infix("|", left, right, self.between(left, right))

    def xor_bits(self, left: s.SyntaxExpr, right: s.SyntaxExpr) -> s.Infix:
        return s.Infix("^", left, right, self.between(left, right))

    def and_bits(self, left: s.SyntaxExpr, right: s.SyntaxExpr) -> s.Infix:
        return s.Infix("&", left, right, self.between(left, right))

    def chain(self, *items: Any) -> s.Chain:
        return s.Chain(items[::2], tuple(str(op) for op in items[1::2]), self.between(items[0], items[-1]))

    def is_none(self, operand: s.SyntaxExpr, none: Token) -> s.IsNone:
        return s.IsNone(operand, False, self.between(operand, none))

    def is_not_none(self, operand: s.SyntaxExpr, _: Token, none: Token) -> s.IsNone:
        return s.IsNone(operand, True, self.between(operand, none))

    def choice(self, if_true: s.SyntaxExpr, condition: s.SyntaxExpr, if_false: s.SyntaxExpr) -> s.Choice:
        return s.Choice(if_true, condition, if_false, self.between(if_true, if_false))

    # Statements.

    def attention(self, keyword: Token, name: Token) -> s.Attention:
        return s.Attention(self.word(name), self.between(keyword, name))

    def head_dim(self, keyword: Token, query: Token, value: Token | None) -> s.HeadDim:
        second = None if value is None else self.integer(value)
        return s.HeadDim(self.integer(query), second, self.between(keyword, query if value is None else value))

    def group(self, keyword: Token, size: Token) -> s.Group:
        return s.Group(None if size == "any" else self.integer(size), self.between(keyword, size))

    def element_type(self, keyword: Token, name: Token) -> s.ElementType:
        return s.ElementType(self.word(name), self.between(keyword, name))

    def varlen(self, keyword: Token) -> s.Varlen:
        return s.Varlen(self.between(keyword, keyword))

    def const(self, keyword: Token, name: Token, value: s.SyntaxExpr) -> s.Const:
        return s.Const(self.word(name), value, self.between(keyword, value))

    def shape(self, *items: s.SyntaxExpr) -> tuple:
        return items

    def limits(self, low: s.SyntaxExpr, high: s.SyntaxExpr) -> tuple:
        return (low, high)

    def sorted(self, token: Token) -> Token:
        return token

    def declare(self, keyword: Token, name: Token, dtype: Token, shape: tuple | None, *properties: Any) -> s.Declare:
        limits = [item for item in properties if not isinstance(item, Token)]
        marks = [item for item in properties if isinstance(item, Token)]
        span = Span(self.source, self.start(keyword), self.end(dtype))
        if len(limits) > 1 or len(marks) > 1:
            self.faults.add("duplicate-property", "`in` and `sorted` may stand once each", self.word(name).span)
        is_learned, range_ = keyword == "learned", limits[0] if limits else None
        return s.Declare(self.word(name), is_learned, self.word(dtype), shape, range_, bool(marks), span)

    def let(self, keyword: Token, name: Token, value: s.SyntaxExpr) -> s.Let:
        return s.Let(self.word(name), value, self.between(keyword, value))

    def parameters(self, *names: Token) -> tuple:
        return tuple(self.word(name) for name in names)

    def require(self, condition: s.SyntaxExpr) -> s.SyntaxExpr:
        return condition

    def define(self, keyword: Token, name: Token, parameters: tuple | None, *rest: s.SyntaxExpr) -> s.Def:
        return s.Def(self.word(name), parameters or (), rest[:-1], rest[-1], self.between(keyword, rest[-1]))

    def scale(self, keyword: Token, value: s.SyntaxExpr) -> s.Scale:
        return s.Scale(value, self.between(keyword, value))

    def score(self, keyword: Token, value: s.SyntaxExpr) -> s.Score:
        return s.Score(value, self.between(keyword, value))

    def mask(self, keyword: Token, value: s.SyntaxExpr) -> s.Mask:
        return s.Mask(value, self.between(keyword, value))

    def sink(self, keyword: Token, value: s.SyntaxExpr) -> s.Sink:
        return s.Sink(value, self.between(keyword, value))


def build(parsed: Parsed, source: Source, offset: int, faults: Faults) -> s.Statement:
    """The statement that Lark parsed from the text at `offset`."""
    return Build(source, offset, faults).transform(parsed)
