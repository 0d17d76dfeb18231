"""Text to tree: lines, brackets, comments, spans."""

import pytest

from attnspec.language import syntax as s
from attnspec.language.diagnostics import SpecError
from attnspec.language.parse import parse
from attnspec.language.show_tree import show_tree

GEMMA = """attention gemma   # a comment ( with a bracket
head_dim 128, 64
const window = 4096
input ids: i32[batch, len_kv] in 0..window - 1 sorted
def cap(x, c) require c > 0 = (
    c  # the cap
    * tanh(x / c))
score = cap(score, 50.0) if not false else ids[b, 0]

mask = 0 <= kv <= q
"""
TREE = """Attention name=gemma
HeadDim
  query: Literal value=128
  value: Literal value=64
Const name=window
  value: Literal value=4096
Declare name=ids is_learned=False dtype=i32 is_sorted=True
  shape: Ident name=batch
  shape: Ident name=len_kv
  limits: Literal value=0
  limits: Infix op=-
    left: Ident name=window
    right: Literal value=1
Def name=cap parameters=(x, c)
  requires: Chain ops=(>)
    operands: Ident name=c
    operands: Literal value=0
  body: Infix op=*
    left: Ident name=c
    right: Apply function=tanh
      arguments: Infix op=/
        left: Ident name=x
        right: Ident name=c
Score
  value: Choice
    if_true: Apply function=cap
      arguments: Ident name=score
      arguments: Literal value=50.0
    condition: Prefix op=not
      operand: Flag value=False
    if_false: Element tensor=ids
      indices: Ident name=b
      indices: Literal value=0
Mask
  value: Chain ops=(<=, <=)
    operands: Literal value=0
    operands: Ident name=kv
    operands: Ident name=q
"""


def value_of(text: str) -> s.SyntaxExpr:
    (statement,) = parse(f"score = {text}").statements
    assert isinstance(statement, s.Score)
    return statement.value


def written(expr: s.SyntaxExpr | s.Word) -> str:
    return expr.span.source.text[expr.span.start : expr.span.end]


def test_a_file_is_the_tree_of_its_statements() -> None:
    assert show_tree(parse(GEMMA)) == TREE


def test_spans_are_where_things_are_written() -> None:
    expr = value_of("a * (b + c[q]) - min(d,\n  e)")
    assert isinstance(expr, s.Infix) and isinstance(expr.left, s.Infix)
    assert written(expr) == "a * (b + c[q]) - min(d,\n  e)"
    assert written(expr.left.right) == "(b + c[q])"
    assert written(expr.right) == "min(d,\n  e)"


@pytest.mark.parametrize(
    ("text", "python"),
    [("a + b * c", "a + (b * c)"), ("a - b - c", "(a - b) - c"), ("-a * b", "(-a) * b"), ("a << b + c", "a << (b + c)"),
     ("a & b << c", "a & (b << c)"), ("a ^ b & c", "a ^ (b & c)"), ("a | b ^ c", "a | (b ^ c)"), ("a < b | c", "a < (b | c)"),
     ("not a < b", "not (a < b)"), ("not a and b", "(not a) and b"), ("a or b and c", "a or (b and c)"),
     ("a if b else c if d else e", "a if b else (c if d else e)"),
     ("a or b if c or d else e or f", "(a or b) if (c or d) else (e or f)"),
     ("a // b % c", "(a // b) % c"), ("a - -b", "a - (-b)")],
)  # fmt: skip
def test_operators_bind_as_in_python(text: str, python: str) -> None:
    assert value_of(text) == value_of(python)


@pytest.mark.parametrize(
    ("text", "value"), [("0x1f", 31), ("0b101", 5), ("1_000", 1000), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("2.5E-1", 0.25)]
)
def test_numbers_are_written_as_in_python(text: str, value: float) -> None:
    found = value_of(text)
    assert found == s.Literal(value) and type(found.value) is type(value)  # type: ignore[union-attr]


def test_words_that_start_statements_are_names_elsewhere() -> None:
    assert value_of("group + sorted * any") == s.Infix("+", s.Ident("group"), s.Infix("*", s.Ident("sorted"), s.Ident("any")))


def test_a_forgotten_bracket_ends_where_the_next_statement_starts() -> None:
    with pytest.raises(SpecError) as caught:
        parse("score = min(a, (b\nmask = q ==\nlet x = 3\n")
    found = [(item.name, item.span.line) for item in caught.value.diagnostics]
    assert found == [("missing-parenthesis", 1), ("missing-parenthesis", 1), ("missing-operand", 2)]


def test_a_bracket_carries_a_statement_over_lines_that_start_with_its_names() -> None:
    assert value_of("(a +\nscore\n* scale)") == value_of("(a + score * scale)")
