"""What a statement that does not parse is called, and what to write instead: named by example."""

import re
from functools import cache

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_parser_state import ParserState

from attnspec.language.diagnostics import Diagnostic
from attnspec.language.lines import LogicalLine
from attnspec.language.source import Source, Span

# Statements that are wrong in one way each. Where a person's statement stops in the same state of the parser, at the
# same token, it has the same fault.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "missing-operand": (
        "score =", "score = a +", "score = * a", "score = a + * b", "mask = a <=", "mask = a <= <= b", "mask = not",
        "mask = a and", "mask = and a", "mask = a or", "mask = a or or b", "score = min(a, )", "score = a[ ]",
        "score = ( )", "score = a if", "score = a if b else", "score = -", "score = a - / b", "scale", "let x =",
        "const x =", "def f(x) =", "mask = a and or b", "score = a | | b", "score = a & & b", "score = a ^ ^ b",
        "score = min(, a)", "mask = a |", "mask = a &", "mask = a ^", "mask = a <<", "mask = not not", "mask = a is", "sink =",
        "def f(x) require", "def f(x) require = x",
    ),
    "missing-operator": (
        "score = a b", "score = a 2", "score = a 2.0", "score = 2 a", "score = (a) b", "score = (a) (b)", "score = a[q] b",
        "score = f(a) b", "score = f(a b)", "score = (a b)", "score = f(a, b c)", "score = a[b c]", "mask = a < b c",
        "mask = a true", "scale a b", "mask = not a b", "score = a if b c", "score = a if b else c d", "score = 2 (a)",
        "mask = a not b", "mask = a is none b", "score = 2 2",
    ),
    "assignment-instead-of-equality": (
        "mask = q = kv", "mask = a and q = kv", "score = a if q = kv", "score = f(q = kv)", "mask = (q = kv)",
        "mask = a < b = c", "mask = a[b = c]", "mask = f(a, q = kv)", "mask = a[q] = b", "mask = f(q) = b", "mask = (q) = b",
        "mask = not q = kv", "scale a = b",
    ),
    "needless-equals": ("scale = 1", "head_dim = 128", "group = 4", "dtype = bf16", "attention = a"),
    "missing-equals": (
        "score a", "mask a", "sink a", "let x a", "let x 3", "const x 3", "const x", "let x", "score", "mask", "sink",
        "score + 1", "score (a)", "score 1", "mask not a", "mask (a)", "def f(x) x", "def f(x) 1", "def f(x)", "score : a",
        "const x : a", "let x : a", "const x -1", "mask -a", "const x .5", "score .5", "mask < 3", "def f",
    ),
    "missing-name": (
        "attention", "attention 3", "let = 3", "const = 3", "const 3 = 4", "def (x) = x", "def = 3", "input : f32",
        "learned : f32", "let", "const", "input", "learned", "def", "dtype", "dtype 3", "let if = 3", "def f(3) = 3",
        "def f() = 3", "def f(x,) = 3", "def f(x, 3) = 3", "let (x) = 3", "attention (x)",
    ),
    "missing-type": (
        "input x", "learned x", "input x :", "learned x :", "input x [heads]", "input x : [heads]", "input x : 3",
        "input x = 3", "learned x = 3", "input x f32", "input x in 0..3",
    ),
    "missing-number": ("head_dim", "head_dim x", "head_dim 128,", "head_dim 128, x", "group", "group x", "group -1",
        "head_dim -1", "head_dim 1.5", "head_dim (x)", "group 1.5", "group (x)"),
    "missing-else": ("score = a if b", "score = (a if b)", "score = f(a if b)", "score = f(a if b, c)"),
    "missing-range-end": ("input x : i32 in 0", "input x : i32 in", "input x : i32 in 0..", "input x : i32 in 0, 3",
        "input x : i32 in ..3"),
    "empty-shape": ("input x : f32[]", "learned x : f32[]", "input x : f32[heads,]", "input x : f32[,]"),
    "text-after-statement": (
        "varlen x", "varlen 3", "attention a b", "attention a 3", "attention a = 3", "head_dim 128 64", "head_dim 128, 64 3",
        "head_dim 128 x", "group 4 4", "group 4 x", "group any x", "dtype bf16 x", "input x : f32 y", "input x : f32[heads] y",
        "input x : f32[heads] = 3", "input x : f32 = 3", "input x : f32 3", "group any = 4",
        "input x : f32[heads] [len_q]", "input x : f32 sorted 3", "varlen = 3", "head_dim 128 = 3", "attention a : 3",
    ),
}  # fmt: skip

MESSAGES: dict[str, tuple[str, str]] = {
    "missing-operand": ("a value is missing {here}", ""),
    "missing-operator": ("an operator is missing before {found}", "write `*` for a product"),
    "assignment-instead-of-equality": ("`=` gives a name its value", "compare with `==`"),
    "needless-equals": ("this statement takes no `=`", "write the value straight after the word: `head_dim 128`"),
    "missing-equals": ("`=` is missing {here}", "write `score = ...`, `let NAME = ...`, `def NAME(...) = ...`"),
    "missing-name": ("a name is missing {here}", "a name is letters, digits and `_`, and not a word of the language"),
    "missing-type": ("a type is missing {here}", "write `NAME: f32[heads]`, or `NAME: f32` for one number"),
    "missing-number": ("a whole number is missing {here}", "write `head_dim 128`, `head_dim 192, 128`, `group 4` or `group any`"),
    "missing-else": ("`if` has no `else`", "write `A if CONDITION else B`"),
    "missing-range-end": ("`in` needs both ends of the range", "write `in 0..len_kv - 1`; both ends belong to it"),
    "empty-shape": ("a shape needs at least one size {here}", "write `f32` alone for one number"),
    "text-after-statement": ("the statement ended before {found}", "one statement a line"),
    "syntax": ("{found} is not expected here", ""),
}  # fmt: skip

# What stands at the place of the fault in other languages: pattern, name, message, help.
FOREIGN: tuple[tuple[re.Pattern[str], str, str, str], ...] = tuple(
    (re.compile(pattern), name, message, help)
    for pattern, name, message, help in (
        (r"&&", "unknown-operator", "`&&` is not an operator of the language", "write `and`"),
        (r"\|\|", "unknown-operator", "`||` is not an operator of the language", "write `or`"),
        (r"!", "unknown-operator", "`!` is not an operator of the language", "write `not`"),
        (r"~", "unknown-operator", "`~` is not an operator of the language", "write `not`, or `x ^ -1` for bits"),
        (r"\*\*", "unknown-operator", "`**` is not an operator of the language", "write `x * x`, `sqrt(x)` or `exp(y * log(x))`"),
        (r"[+\-*/%&|^]=|//=", "unknown-operator", "there is no assignment with an operator", "write `score = score + ...`"),
        (r"=<", "unknown-operator", "`=<` is not an operator of the language", "write `<=`"),
        (r"=>", "unknown-operator", "`=>` is not an operator of the language", "write `>=`"),
        (r"<>", "unknown-operator", "`<>` is not an operator of the language", "write `!=`"),
        (r"\?", "unknown-operator", "`?` is not an operator of the language", "write `A if CONDITION else B`"),
        (r"@", "unknown-operator", "there is no matrix product in the language", "the score of a query and a key is `score`"),
        (r"[\"'`]", "unknown-character", "there are no strings in the language", ""),
        (r";", "text-after-statement", "`;` does not end a statement", "write one statement a line"),
        (r"\\", "unknown-character", "`\\` does not continue a line", "open a bracket: a statement goes on until it is closed"),
        (r"\{", "unknown-character", "there are no braces in the language", "write ( )"),
        (r"\.[A-Za-z_]\w*", "unknown-character", "names have no parts", "functions stand alone: `exp(x)`"),
        (r"(?:lambda|return|for|while|elif|import|print)\b", "unknown-statement", "this word is not of the language", ""),
    )
)  # fmt: skip
INDEXED_APART = re.compile(r"([A-Za-z_]\w*)((?:\s*\[[^\[\]]*\]){2,})")
BAD_NUMBER = re.compile(r"[0-9][0-9A-Za-z_.]*")


@cache
def statement_parser() -> Lark:
    """The LALR parser of one statement; building it takes some 50 ms."""
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", maybe_placeholders=True)


def explain(error: UnexpectedInput, line: LogicalLine, source: Source) -> Diagnostic:
    """The fault of a statement that the parser stopped in."""
    at, length, token = _place(error, line)
    foreign = _foreign(line, at)
    if foreign is not None:
        start, end, name, message, help = foreign
        return Diagnostic(name, message, Span(source, line.start + start, line.start + end), help=help)
    span = Span(source, line.start + at, line.start + at + length)
    if line.text[at : at + 1] == "[" and line.text[:at].rstrip().endswith("]"):
        return Diagnostic(_name(error), "all indices stand in one pair of brackets", span, help=f"write `{_together(line, at)}`")
    text = line.text[at : at + length]
    if text[:1].isdigit() and isinstance(error, UnexpectedCharacters):
        return Diagnostic("bad-number", f"`{text}` is not a number", span, help="write 12, 0x1f, 1.5 or 2e-3")
    name = _name(error)
    message, help = MESSAGES[name]
    found = f"`{text}`" if text.strip() else "the end of the statement"
    here = "here" if token is None else f"before {found}" if text.strip() else "at the end of the statement"
    return Diagnostic(name, message.format(found=found, here=here), span, help=help)


def _together(line: LogicalLine, at: int) -> str:
    """What was meant by brackets that follow brackets, `bias[h][q]`; an example where they hold brackets themselves."""
    for found in INDEXED_APART.finditer(line.text):
        if found.start() < at < found.end():
            parts = [part.strip() for part in re.findall(r"\[([^\[\]]*)\]", found.group(2))]
            return f"{found.group(1)}[{', '.join(parts)}]"
    return "name[h, q]"


def _name(error: UnexpectedInput) -> str:
    """The name of the examples that stop in the state that this statement stopped in: at the same token, or at any."""
    known = _examples_by_state()
    state, token = _stop(error)
    return known.get((state, token)) or known.get((state, None)) or "syntax"


@cache
def _examples_by_state() -> dict[tuple[int, str | None], str]:
    found: dict[tuple[int, str | None], str] = {}
    for name, statements in EXAMPLES.items():
        for statement in statements:
            try:
                statement_parser().parse(statement)
            except UnexpectedInput as error:
                state, token = _stop(error)
                found.setdefault((state, token), name)
                found.setdefault((state, None), name)
    return found


def _stop(error: UnexpectedInput) -> tuple[int, str]:
    """The state of the parser that an error was found in, and the type of the token."""
    token = error.token.type if isinstance(error, UnexpectedToken) else "no token"
    return (error.state.position if isinstance(error.state, ParserState) else -1), token


def _place(error: UnexpectedInput, line: LogicalLine) -> tuple[int, int, str | None]:
    """Offset in the line, length, and the type of the token that did not fit."""
    end = len(line.text.rstrip())
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return end, 1, "$END"
    at = error.pos_in_stream if error.pos_in_stream is not None else end
    if isinstance(error, UnexpectedToken):
        return at, len(error.token), error.token.type
    word = re.compile(r"[A-Za-z_]\w*").match(line.text, at) or BAD_NUMBER.match(line.text, at)
    return at, len(word.group()) if word else 1, None


def _foreign(line: LogicalLine, at: int) -> tuple[int, int, str, str, str] | None:
    """A sign of another language that the parser stopped in, or just after the first character of."""
    for start in (at, at - 1):
        for pattern, name, message, help in FOREIGN:
            found = pattern.match(line.text, max(start, 0))
            if found and found.end() > at:
                return found.start(), found.end(), name, message, help
    return None
