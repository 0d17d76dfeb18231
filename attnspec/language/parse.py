"""Text to tree: each logical line parsed alone, every line that does not parse reported."""

import re

from lark.exceptions import UnexpectedInput

from attnspec.language import syntax
from attnspec.language.build import build
from attnspec.language.faults import Faults
from attnspec.language.limits import MAX_DEPTH
from attnspec.language.lines import LogicalLine, logical_lines
from attnspec.language.source import Source, Span
from attnspec.language.suggest import did_you_mean
from attnspec.language.syntax_errors import explain, statement_parser
from attnspec.language.text import guard

STATEMENTS = (
    "attention", "head_dim", "group", "dtype", "scale", "varlen", "const", "input", "learned", "let", "def", "score",
    "mask", "sink",
)  # fmt: skip
FIRST_WORD = re.compile(r"\s*(\w+|\S)\s*")


def parse(text: str, name: str = "<text>") -> syntax.Tree:
    """The statements of a file, in order. name: how messages call it. SpecError with every fault of its syntax."""
    source, faults = Source(name, text), Faults()
    guard(source, faults)
    lines = logical_lines(source, faults)
    statements = [_statement(line, source, faults) for line in lines if line.is_sound and line.text.isascii()]
    faults.stop_if_any()
    return syntax.Tree(source, tuple(item for item in statements if item is not None))


def _statement(line: LogicalLine, source: Source, faults: Faults) -> syntax.Statement | None:
    found = FIRST_WORD.match(line.text)
    if found and found.group(1) not in STATEMENTS:
        _unknown_statement(line, found, source, faults)
        return None
    try:
        parsed = statement_parser().parse(line.text)
    except UnexpectedInput as error:
        diagnostic = explain(error, line, source)
        faults.add(diagnostic.name, diagnostic.message, diagnostic.span, diagnostic.note, diagnostic.help)
        return None
    statement = build(parsed, source, line.start, faults)
    _guard_depth(statement, faults)
    return statement


def _unknown_statement(line: LogicalLine, found: re.Match[str], source: Source, faults: Faults) -> None:
    word = found.group(1)
    span = Span(source, line.start + found.start(1), line.start + found.end(1))
    help = did_you_mean(word, STATEMENTS)
    if not help and re.match(r"=(?!=)", line.text[found.end() :]):
        help = f"a name is given with `let {word} = ...` or `const {word} = NUMBER`"
    elif not help:
        help = f"a statement starts with one of: {', '.join(STATEMENTS)}"
    faults.add("unknown-statement", f"`{word}` does not start a statement", span, help=help)


def _guard_depth(statement: syntax.Statement, faults: Faults) -> None:
    """Stop at operators nested so deep that a walk over them would exhaust Python's stack."""
    roots = [getattr(statement, part) for part in ("value", "body") if hasattr(statement, part)]
    roots += [*getattr(statement, "requires", ()), *(getattr(statement, "shape", None) or ())]
    roots += getattr(statement, "limits", None) or ()
    level = [root for root in roots if root is not None]
    for _ in range(MAX_DEPTH):
        level = [operand for expr in level for operand in syntax.operands(expr)]
        if not level:
            return
    message = f"operators are nested deeper than {MAX_DEPTH}"
    faults.stop("nested-too-deep", message, statement.span, help="give parts of it names with `let`")
